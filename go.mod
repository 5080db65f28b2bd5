module lameduck

go 1.26.0

require (
	github.com/spf13/pflag v1.1.0
	github.com/vishvananda/netlink v1.3.1
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.60.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/text v0.42.0 // indirect
)
