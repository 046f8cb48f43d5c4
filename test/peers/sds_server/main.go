// Command sds_server is the SDS server of the tests: the reference xDS server library, told what to
// serve and how to misbehave by JSON lines on stdin, one answer line each on stdout. It ends with its
// stdin. With -habits spire it behaves as a SPIRE agent does instead (spire.go).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	secret "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/log"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// command is one line from the test; every op uses some of the fields.
type command struct {
	Op string
	// start: "127.0.0.1:0" or "unix:/path"; absent: where it listened before.
	Listen string
	// start: absent keeps what was there before.
	TLS *tlsFiles
	// set: proto-JSON of a Secret by resource name; null removes it. The message's own name may differ.
	Secrets map[string]json.RawMessage
	// workload: everything that the workload of -habits spire may have.
	Workload workload
	// requests: entries of the log from here on.
	Since int
	// fault: what new connections meet, "" for nothing (listen.go).
	Fault string
	// start: answer a first request at once even where none of its names exists, with no resources.
	AnswerUnknown bool
}

type peer struct {
	spire bool
	cache *cache.LinearCache
	// How often the cache was changed, which is the version that its answers carry.
	updates int
	listening
	journal
	agent
}

func main() {
	habits := flag.String("habits", "", `"spire": behave like a SPIRE agent`)
	flag.Parse()
	p := &peer{
		spire: *habits == "spire",
		cache: cache.NewLinearCache(resource.SecretType, cache.WithLogger(log.LoggerFuncs{})),
	}
	p.changed = make(chan struct{})
	p.journal.reset()
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 256<<20)
	for in.Scan() {
		answer, err := p.obey(in.Bytes())
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if out.Encode(answer) != nil {
			return
		}
	}
}

func (p *peer) obey(line []byte) (map[string]any, error) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	done := map[string]any{"ok": true}
	switch c.Op {
	case "start":
		address, err := p.start(c, p.observe, p.serve)
		return map[string]any{"listening": address}, err
	case "stop":
		p.stop()
		return done, nil
	case "set":
		err := p.set(c.Secrets)
		return map[string]any{"version": p.updates}, err
	case "clear":
		p.cache.SetResources(map[string]types.Resource{})
		p.updates++
		return done, nil
	case "workload":
		at := p.journal.length()
		p.agent.replace(c.Workload)
		return map[string]any{"at": at}, nil
	case "requests":
		entries, open := p.journal.since(c.Since)
		return map[string]any{"entries": entries, "streams": open, "connections": p.connections()}, nil
	case "stall", "unstall":
		p.journal.stall(c.Op == "stall")
		return done, nil
	case "kill_streams":
		p.journal.killStreams()
		return done, nil
	case "fault":
		p.setFault(c.Fault)
		return done, nil
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

func (p *peer) set(secrets map[string]json.RawMessage) error {
	updated, removed := map[string]types.Resource{}, []string{}
	for name, text := range secrets {
		if string(text) == "null" {
			removed = append(removed, name)
			continue
		}
		message := &tlsv3.Secret{Name: name}
		if err := protojson.Unmarshal(text, message); err != nil {
			return fmt.Errorf("secret %q: %w", name, err)
		}
		if message.Name == "" {
			message.Name = name
		}
		updated[name] = message
	}
	p.updates++
	return p.cache.UpdateResources(updated, removed)
}

// serve registers what this peer offers on a new gRPC server.
func (p *peer) serve(s *grpc.Server, c command) {
	if p.spire {
		registerSpire(s, &p.agent)
		return
	}
	var source cache.Cache = p.cache
	if !c.AnswerUnknown {
		source = quiet{p.cache}
	}
	secret.RegisterSecretDiscoveryServiceServer(s, server.NewServer(context.Background(), source, nil))
}

// quiet is the cache without empty answers. LinearCache answers every request that holds no version,
// be it with no resource at all: to a first request for an unknown name, and to each refusal of a
// first answer.
type quiet struct{ *cache.LinearCache }

func (q quiet) CreateWatch(request *cache.Request, sub cache.Subscription, to chan cache.Response) (func(), error) {
	if request.GetVersionInfo() == "" {
		request = proto.Clone(request).(*cache.Request)
		request.VersionInfo = "0"
	}
	return q.LinearCache.CreateWatch(request, sub, to)
}
