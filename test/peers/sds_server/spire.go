package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"io"
	"slices"
	"strconv"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secret "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	api "github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// workload is everything that one attested workload may have. All text is PEM, keys PKCS#8.
type workload struct {
	// "spiffe://td": whose bundle is "ROOTCA".
	TrustDomain string `json:"trust_domain"`
	SVIDs       []struct{ ID, Chain, Key, Hint string }
	// By "spiffe://td", the own one and those federated with.
	Bundles map[string]string
}

// agent holds the workload's state and says when it changed.
type agent struct {
	latch   sync.Mutex
	state   workload
	changed chan struct{}
}

func (a *agent) replace(state workload) {
	a.latch.Lock()
	defer a.latch.Unlock()
	a.state = state
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *agent) current() (workload, <-chan struct{}) {
	a.latch.Lock()
	defer a.latch.Unlock()
	return a.state, a.changed
}

func registerSpire(s *grpc.Server, a *agent) {
	secret.RegisterSecretDiscoveryServiceServer(s, spireSDS{agent: a})
	api.RegisterSpiffeWorkloadAPIServer(s, workloadAPI{agent: a})
}

// spireSDS knows no delta: the embedded type answers Unimplemented.
type spireSDS struct {
	secret.UnimplementedSecretDiscoveryServiceServer
	agent *agent
}

func (s spireSDS) StreamSecrets(stream secret.SecretDiscoveryService_StreamSecretsServer) error {
	requests, ended := make(chan *discovery.DiscoveryRequest), make(chan error, 1)
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- request:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	var last *discovery.DiscoveryRequest
	var node *core.Node
	nonce, version := "", 1
	state, changed := s.agent.current()
	for {
		select {
		case err := <-ended:
			if err == io.EOF {
				return nil
			}
			return err
		case <-changed:
			state, changed = s.agent.current()
			version++
			if last == nil {
				continue
			}
		case request := <-requests:
			if request.Node != nil {
				node = request.Node
			}
			if request.ResponseNonce != nonce {
				continue
			}
			known := last != nil && sameNames(last.ResourceNames, request.ResourceNames)
			last = request
			if known {
				continue // an ACK, or a NACK: nothing is sent again until something changes
			}
		}
		resources, err := spireResources(state, last.ResourceNames, node)
		if err != nil {
			return err
		}
		random := make([]byte, 4)
		rand.Read(random)
		nonce = hex.EncodeToString(random)
		answer := &discovery.DiscoveryResponse{
			TypeUrl: resource.SecretType, VersionInfo: strconv.Itoa(version), Nonce: nonce, Resources: resources,
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// spireResources is an answer to exactly these names; one that it cannot serve refuses them all. Of the
// aliases only the first found is served: own id before "default", own domain before "ROOTCA" and "ALL".
func spireResources(state workload, names []string, node *core.Node) ([]*anypb.Any, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	take := func(name string) bool {
		found := wanted[name]
		delete(wanted, name)
		return found
	}
	var resources []*anypb.Any
	add := func(s *tlsv3.Secret) error {
		packed, err := anypb.New(s)
		resources = append(resources, packed)
		return err
	}
	all, old := len(names) == 0, isOldEnvoy(node)
	domains := []string{}
	for domain := range state.Bundles {
		domains = append(domains, domain)
	}
	slices.Sort(domains)
	switch {
	case state.Bundles[state.TrustDomain] == "":
	case all || take(state.TrustDomain):
		add(bundle(state.TrustDomain, state, []string{state.TrustDomain}, old))
	case take("ROOTCA"):
		add(bundle("ROOTCA", state, []string{state.TrustDomain}, old))
	case take("ALL"):
		if old {
			return nil, status.Error(codes.Internal, `"ALL" needs the SPIFFE validator`)
		}
		add(bundle("ALL", state, domains, false))
	}
	for _, domain := range domains {
		if domain != state.TrustDomain && (all || take(domain)) {
			add(bundle(domain, state, []string{domain}, old))
		}
	}
	for i, svid := range state.SVIDs {
		name := svid.ID
		if !all && !take(svid.ID) {
			if i > 0 || !take("default") {
				continue
			}
			name = "default"
		}
		add(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(svid.Chain), PrivateKey: inline(svid.Key),
		}}})
	}
	for name := range wanted {
		return nil, status.Errorf(codes.InvalidArgument, "workload is not authorized for %q", name)
	}
	return resources, nil
}

func bundle(name string, state workload, domains []string, plain bool) *tlsv3.Secret {
	rules := &tlsv3.CertificateValidationContext{}
	if plain {
		rules.TrustedCa = inline(state.Bundles[domains[0]])
	} else {
		validator := &tlsv3.SPIFFECertValidatorConfig{}
		for _, domain := range domains {
			validator.TrustDomains = append(validator.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{
				Name: domain[len("spiffe://"):], TrustBundle: inline(state.Bundles[domain]),
			})
		}
		packed, err := anypb.New(validator)
		if err != nil {
			panic(err)
		}
		rules.CustomValidatorConfig = &core.TypedExtensionConfig{
			Name: "envoy.tls.cert_validator.spiffe", TypedConfig: packed,
		}
	}
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: rules}}
}

// isOldEnvoy says that a client takes no SPIFFE validator: by its version, or because it says so.
func isOldEnvoy(node *core.Node) bool {
	switch value := node.GetMetadata().GetFields()["disable_spiffe_cert_validation"].AsInterface().(type) {
	case bool:
		if value {
			return true
		}
	case string:
		if value == "true" {
			return true
		}
	}
	version := node.GetUserAgentBuildVersion().GetVersion()
	return version != nil && (version.MajorNumber < 1 || version.MajorNumber == 1 && version.MinorNumber < 18)
}

func inline(text string) *core.DataSource {
	return &core.DataSource{Specifier: &core.DataSource_InlineBytes{InlineBytes: []byte(text)}}
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

type workloadAPI struct {
	api.UnimplementedSpiffeWorkloadAPIServer
	agent *agent
}

func (w workloadAPI) FetchX509SVID(_ *api.X509SVIDRequest, stream grpc.ServerStreamingServer[api.X509SVIDResponse]) error {
	return w.follow(stream.Context(), func(state workload) error {
		answer := &api.X509SVIDResponse{FederatedBundles: map[string][]byte{}}
		for _, svid := range state.SVIDs {
			answer.Svids = append(answer.Svids, &api.X509SVID{
				SpiffeId: svid.ID, X509Svid: der(svid.Chain), X509SvidKey: der(svid.Key),
				Bundle: der(state.Bundles[state.TrustDomain]), Hint: svid.Hint,
			})
		}
		for domain, text := range state.Bundles {
			if domain != state.TrustDomain {
				answer.FederatedBundles[domain] = der(text)
			}
		}
		return stream.Send(answer)
	})
}

func (w workloadAPI) FetchX509Bundles(_ *api.X509BundlesRequest, stream grpc.ServerStreamingServer[api.X509BundlesResponse]) error {
	return w.follow(stream.Context(), func(state workload) error {
		answer := &api.X509BundlesResponse{Bundles: map[string][]byte{}}
		for domain, text := range state.Bundles {
			answer.Bundles[domain] = der(text)
		}
		return stream.Send(answer)
	})
}

// follow sends the state now and at each change; a workload without identity is refused.
func (w workloadAPI) follow(ctx context.Context, send func(workload) error) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	if !slices.Equal(headers.Get("workload.spiffe.io"), []string{"true"}) {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	for {
		state, changed := w.agent.current()
		if len(state.SVIDs) == 0 {
			return status.Error(codes.PermissionDenied, "no identity issued")
		}
		if err := send(state); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// der is every block of a PEM text, one after the other.
func der(text string) []byte {
	var out []byte
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return out
		}
		out = append(out, block.Bytes...)
	}
}
