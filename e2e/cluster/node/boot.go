package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// boot starts the daemons in their order; start tells how. It returns when all run and the first three answer: a node
// that is Ready is for the caller to wait for.
func boot(ctx context.Context, o Options, start func(daemon) error) error {
	for _, step := range []struct {
		daemon daemon
		ready  func(context.Context) error
	}{
		{containerd(o), dials("unix", ContainerdSocket)},
		{etcd(o), dials("tcp", "127.0.0.1:2379")},
		{apiserver(o), apiReady},
	} {
		if err := start(step.daemon); err != nil {
			return err
		}
		if err := until(ctx, step.ready); err != nil {
			return fmt.Errorf("%s does not answer: %w", step.daemon.name, err)
		}
	}
	for _, d := range clients(o) {
		if err := start(d); err != nil {
			return err
		}
	}
	return nil
}

// until tries until it succeeds, for a minute.
func until(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-pause.C:
		}
	}
}

func dials(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func apiReady(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate is made by itself at its start
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+IP+":6443/readyz", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", resp.Status)
	}
	return nil
}
