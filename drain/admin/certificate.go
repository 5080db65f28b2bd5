package admin

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// Certificate is what the admin address shows to those who speak TLS: a pair of files, read anew when they have changed.
// cert-manager and the kubelet change them by swapping a link, anything else may write into them. They are looked at when a
// client comes, so that nothing wakes an idle pod.
type Certificate struct {
	cert, key string
	logger    *slog.Logger

	mu    sync.Mutex
	seen  string // what the files were like when they were read last
	valid *tls.Certificate
}

// LoadCertificate reads a certificate with its chain, and its key, both PEM.
func LoadCertificate(cert, key string, logger *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, logger: discardIfNil(logger)}
	var err error
	if c.valid, err = c.read(); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return c, nil
}

// present is a tls.Config.GetCertificate. A pair that cannot be used is said once, and the one before stays.
func (c *Certificate) present(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.look() == c.seen {
		return c.valid, nil
	}
	fresh, err := c.read()
	if err != nil {
		c.logger.Warn("the new certificate of the admin address cannot be used; the one before stays", "error", err)
		return c.valid, nil
	}
	c.logger.Info("the admin address has a new certificate", "until", fresh.Leaf.NotAfter)
	c.valid = fresh
	return c.valid, nil
}

// read reads the pair. Where it was swapped between the first file and the second they do not belong together: so it is
// read until it has not changed meanwhile, though not for ever.
func (c *Certificate) read() (*tls.Certificate, error) {
	var pair tls.Certificate
	var err error
	for range 3 {
		c.seen = c.look()
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); c.look() == c.seen {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// look tells what both files are like: which they are, how long, and when they were written.
func (c *Certificate) look() string {
	look := ""
	for _, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			look += err.Error()
			continue
		}
		var inode uint64
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = s.Ino
		}
		look += fmt.Sprintln(inode, info.Size(), info.ModTime().UnixNano())
	}
	return look
}
