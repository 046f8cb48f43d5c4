package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// tlsFiles is PEM text, not paths.
type tlsFiles struct {
	Cert, Key string
	// ClientCA set: clients must show a certificate of it.
	ClientCA string `json:"client_ca"`
}

// listening is the network side: one gRPC server at a time, on an address that survives a restart.
type listening struct {
	lock    sync.Mutex
	server  *grpc.Server
	address string
	tls     *tls.Config
	fault   string
	open    map[net.Conn]struct{}
}

func (l *listening) start(c command, observe grpc.StreamServerInterceptor, register func(*grpc.Server, command)) (string, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.server != nil {
		return "", errors.New("it listens already")
	}
	if c.Listen != "" {
		l.address = c.Listen
	}
	if c.TLS != nil {
		config, err := c.TLS.config()
		if err != nil {
			return "", err
		}
		l.tls = config
	}
	network, address := "tcp", l.address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	socket, err := net.Listen(network, address)
	if err != nil {
		return "", err
	}
	if network == "tcp" {
		l.address = socket.Addr().String()
	}
	l.open = map[net.Conn]struct{}{}
	options := []grpc.ServerOption{grpc.StreamInterceptor(observe)}
	if l.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(l.tls)))
	}
	l.server = grpc.NewServer(options...)
	register(l.server, c)
	go l.server.Serve(&faulty{socket, l})
	return l.address, nil
}

func (l *listening) stop() {
	l.lock.Lock()
	server := l.server
	l.server = nil
	l.lock.Unlock()
	if server != nil {
		l.closeAll()
		server.Stop()
	}
}

// setFault also ends what is connected, so that a client meets the fault now.
func (l *listening) setFault(fault string) {
	l.lock.Lock()
	l.fault = fault
	l.lock.Unlock()
	l.closeAll()
}

func (l *listening) closeAll() {
	l.lock.Lock()
	defer l.lock.Unlock()
	for connection := range l.open {
		connection.Close()
	}
}

func (l *listening) connections() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return len(l.open)
}

func (f tlsFiles) config() (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(f.Cert), []byte(f.Key))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if f.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM([]byte(f.ClientCA)) {
			return nil, errors.New("client_ca holds no certificate")
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// faulty gives connections to gRPC, or treats them as the current fault wants:
// "garbage" random bytes in place of HTTP/2, "silent" not one byte, "slow" a byte every 100 ms.
type faulty struct {
	net.Listener
	owner *listening
}

func (f *faulty) Accept() (net.Conn, error) {
	for {
		raw, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		f.owner.lock.Lock()
		fault := f.owner.fault
		connection := &counted{Conn: raw, owner: f.owner, slow: fault == "slow"}
		f.owner.open[connection] = struct{}{}
		f.owner.lock.Unlock()
		if fault == "" || fault == "slow" {
			return connection, nil
		}
		go func() {
			defer connection.Close()
			if fault == "garbage" {
				noise := make([]byte, 4096)
				rand.Read(noise)
				connection.Write(noise)
			}
			io.Copy(io.Discard, connection)
		}()
	}
}

type counted struct {
	net.Conn
	owner *listening
	slow  bool
	once  sync.Once
}

func (c *counted) Write(bytes []byte) (int, error) {
	if !c.slow {
		return c.Conn.Write(bytes)
	}
	for i := range bytes {
		time.Sleep(100 * time.Millisecond)
		if _, err := c.Conn.Write(bytes[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(bytes), nil
}

func (c *counted) Close() error {
	// In a goroutine of its own: closeAll holds the lock while it closes.
	c.once.Do(func() {
		go func() {
			c.owner.lock.Lock()
			defer c.owner.lock.Unlock()
			delete(c.owner.open, c)
		}()
	})
	return c.Conn.Close()
}
