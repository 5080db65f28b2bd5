module lameduck

go 1.26
