package app

import (
	"fmt"
	"os"
)

// book keeps what reached the application, a line each: the ids of requests, and the health checks.
type book struct{ served, checks *os.File }

// openBook opens the two files; without a name nothing is kept.
func openBook(served, checks string) (book, error) {
	var b book
	var err error
	if b.served, err = appending(served); err != nil {
		return b, err
	}
	b.checks, err = appending(checks)
	return b, err
}

func appending(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// request keeps a request's id. It is written unbuffered, and before the answer: an application may be killed at any moment.
func (b book) request(id string) {
	if id != "" && b.served != nil {
		_, _ = fmt.Fprintln(b.served, id)
	}
}

// check keeps a health check.
func (b book) check(kind string) {
	if b.checks != nil {
		_, _ = fmt.Fprintln(b.checks, kind)
	}
}
