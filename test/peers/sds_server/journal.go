package main

import (
	"encoding/json"
	"path"
	"sync"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// entry is one thing that happened on a stream: open, request, response, close.
type entry struct {
	Stream int    `json:"stream"`
	Method string `json:"method"`
	Event  string `json:"event"`
	AtMs   int64  `json:"atMs"`
	// Asked for or newly subscribed; of a response: the secrets in it.
	Names   []string `json:"names,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Version string   `json:"version,omitempty"`
	// Of a delta request: what the client says it holds. Of a delta response: what each secret is.
	Versions map[string]string `json:"versions,omitempty"`
	Nonce    string            `json:"nonce,omitempty"`
	Error    *fault            `json:"error,omitempty"`
	Node     json.RawMessage   `json:"node,omitempty"`
	Metadata metadata.MD       `json:"metadata,omitempty"`
}

type fault struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
}

// The oldest entries are kept: a test that makes more than this is interested in its beginning.
const maxEntries = 200_000

// journal sees every message of every stream, and can hold answers back or end the streams.
type journal struct {
	guard   sync.Mutex
	entries []entry
	streams int
	running int
	// Closed while answers flow.
	flow    chan struct{}
	stalled bool
	// Closed to end the streams of now.
	kill chan struct{}
}

func (j *journal) reset() {
	j.flow, j.kill = make(chan struct{}), make(chan struct{})
	close(j.flow)
}

func (j *journal) since(from int) ([]entry, int) {
	j.guard.Lock()
	defer j.guard.Unlock()
	if from < 0 || from > len(j.entries) {
		from = len(j.entries)
	}
	return append([]entry{}, j.entries[from:]...), j.running
}

func (j *journal) length() int {
	j.guard.Lock()
	defer j.guard.Unlock()
	return len(j.entries)
}

func (j *journal) stall(stalled bool) {
	j.guard.Lock()
	defer j.guard.Unlock()
	if stalled == j.stalled {
		return
	}
	j.stalled = stalled
	if stalled {
		j.flow = make(chan struct{})
	} else {
		close(j.flow)
	}
}

func (j *journal) killStreams() {
	j.guard.Lock()
	defer j.guard.Unlock()
	close(j.kill)
	j.kill = make(chan struct{})
}

func (j *journal) flowing() <-chan struct{} {
	j.guard.Lock()
	defer j.guard.Unlock()
	return j.flow
}

func (j *journal) record(e entry) {
	e.AtMs = time.Now().UnixMilli()
	j.guard.Lock()
	defer j.guard.Unlock()
	if len(j.entries) < maxEntries {
		j.entries = append(j.entries, e)
	}
}

func (j *journal) observe(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	j.guard.Lock()
	j.streams++
	j.running++
	id, kill := j.streams, j.kill
	j.guard.Unlock()
	about := entry{Stream: id, Method: path.Base(info.FullMethod)}
	opened := about
	opened.Event = "open"
	opened.Metadata, _ = metadata.FromIncomingContext(stream.Context())
	j.record(opened)

	done := make(chan error, 1)
	go func() { done <- handle(srv, &observed{stream, j, about}) }()
	var err error
	select {
	case err = <-done:
	case <-kill:
		err = grpcstatus.Error(codes.Unavailable, "ended by the test")
	}
	closed := about
	closed.Event = "close"
	if err != nil {
		closed.Error = faultOf(grpcstatus.Convert(err).Proto())
	}
	j.record(closed)
	j.guard.Lock()
	j.running--
	j.guard.Unlock()
	return err
}

type observed struct {
	grpc.ServerStream
	journal *journal
	about   entry
}

func (o *observed) RecvMsg(message any) error {
	if err := o.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	e := o.about
	e.Event = "request"
	switch m := message.(type) {
	case *discovery.DiscoveryRequest:
		e.Names, e.Version, e.Nonce = m.ResourceNames, m.VersionInfo, m.ResponseNonce
		e.Error = faultOf(m.ErrorDetail)
		if m.Node != nil {
			e.Node, _ = protojson.Marshal(m.Node)
		}
	case *discovery.DeltaDiscoveryRequest:
		e.Names, e.Removed, e.Nonce = m.ResourceNamesSubscribe, m.ResourceNamesUnsubscribe, m.ResponseNonce
		e.Versions, e.Error = m.InitialResourceVersions, faultOf(m.ErrorDetail)
		if m.Node != nil {
			e.Node, _ = protojson.Marshal(m.Node)
		}
	}
	o.journal.record(e)
	return nil
}

func (o *observed) SendMsg(message any) error {
	select {
	case <-o.journal.flowing():
	case <-o.Context().Done():
		return o.Context().Err()
	}
	e := o.about
	e.Event = "response"
	switch m := message.(type) {
	case *discovery.DiscoveryResponse:
		e.Version, e.Nonce = m.VersionInfo, m.Nonce
		for _, packed := range m.Resources {
			var s tlsv3.Secret
			if packed.UnmarshalTo(&s) == nil {
				e.Names = append(e.Names, s.Name)
			}
		}
	case *discovery.DeltaDiscoveryResponse:
		e.Version, e.Nonce, e.Removed = m.SystemVersionInfo, m.Nonce, m.RemovedResources
		e.Versions = map[string]string{}
		for _, r := range m.Resources {
			e.Names = append(e.Names, r.Name)
			e.Versions[r.Name] = r.Version
		}
	}
	o.journal.record(e)
	return o.ServerStream.SendMsg(message)
}

func faultOf(s *status.Status) *fault {
	if s == nil {
		return nil
	}
	return &fault{s.Code, s.Message}
}
