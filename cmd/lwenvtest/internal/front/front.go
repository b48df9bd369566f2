// Package front puts the API server of lwenvtest together: a [lwtest.Server] with the built-in kinds,
// their defaults, CustomResourceDefinitions and admission.
package front

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apischedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/rest"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/admission"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/definitions"
)

// Options configure a server. The zero Options are those of envtest.
type Options struct {
	// Services is the range of the cluster IPs. The zero Prefix: 10.0.0.0/24.
	Services netip.Prefix
	// Access says whom the server knows.
	Access access.Options
}

// A Server is an API server as a suite of envtest meets it.
type Server struct {
	server  *lwtest.Server
	access  *access.Access
	plugins builtin.Plugins
	chain   admission.Chain
	address addresses
	handler http.Handler
}

// New returns a server with the objects that kube-apiserver makes when it starts. It admits without
// webhooks and policies until Start.
func New(o Options) (*Server, error) {
	s := &Server{}
	var err error
	if s.access, err = access.New(o.Access); err != nil {
		return nil, err
	}
	if err := s.address.begin(o.Services, s.services); err != nil {
		return nil, fmt.Errorf("lwenvtest: %w", err)
	}
	all, err := s.resources()
	if err != nil {
		return nil, err
	}
	s.server = lwtest.StartServer(all...)
	if err := s.bootstrap(); err != nil {
		return nil, fmt.Errorf("lwenvtest: %w", err)
	}
	if err := s.access.Start(s.server); err != nil {
		return nil, err
	}
	s.handler = s.access.Handler(s.server)
	return s, nil
}

// resources are the built-in kinds, with admission.
func (s *Server) resources() ([]lwtest.Resource, error) {
	all, err := definitions.Resources(definitions.Options{Services: &s.chain, Admit: s.chain.Admit})
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = builtin.Rules(all[i], &s.plugins)
	}
	all = append(all, s.access.Resources()...)
	for _, r := range cluster.Resources() {
		if r.Group == "events.k8s.io" { // these are the Events of the core group; see builtin.Also
			continue
		}
		if !slices.ContainsFunc(all, func(have lwtest.Resource) bool { return have.Group == r.Group && have.Plural == r.Plural }) {
			all = append(all, builtin.Rules(r, &s.plugins))
		}
	}
	for i := range all {
		r := &all[i]
		switch {
		case r.Group != "":
		case r.Plural == "namespaces":
			r.Ends = true
		case r.Plural == "pods":
			r.Linger = 5 * time.Millisecond // two writes to the etcd of envtest are no less apart
		case r.Plural == "services":
			r.Default = before(s.address.admit, r.Default)
		case r.Plural == "serviceaccounts":
			*r = s.access.ServiceAccounts(*r)
		}
		*r = builtin.Also(s.chain.Admit(*r), func(other lwtest.Resource) lwtest.Resource {
			return s.chain.Admit(builtin.Rules(other, &s.plugins))
		})
	}
	return all, nil
}

type admit = func(ctx context.Context, a lwtest.Admission) error

// before returns a function that does first, and then next, which may be nil.
func before(first, next admit) admit {
	return func(ctx context.Context, a lwtest.Admission) error {
		if err := first(ctx, a); err != nil || next == nil {
			return err
		}
		return next(ctx, a)
	}
}

// bootstrap makes the objects that every cluster has.
func (s *Server) bootstrap() error {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		ns := &corev1.Namespace{}
		ns.Name = name
		if _, err := lwtest.Objects[*corev1.Namespace](s.server, "namespaces").Create(ns); err != nil {
			return err
		}
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		if _, err := lwtest.Objects[*apischedulingv1.PriorityClass](s.server, "priorityclasses").Create(class); err != nil {
			return err
		}
	}
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = "default", "kubernetes"
	svc.Labels = map[string]string{"component": "apiserver", "provider": "kubernetes"}
	svc.Spec.ClusterIP = s.address.first().String()
	svc.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
	_, err := lwtest.Objects[*corev1.Service](s.server, "services").Create(svc)
	return err
}

func (s *Server) services() iter.Seq[*corev1.Service] {
	return lwtest.Objects[*corev1.Service](s.server, "services").All()
}

// Start has the plugins of the built-in kinds, webhooks and policies admit, until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	// They ask within the process, where nobody asks who they are.
	config := &rest.Config{Host: s.server.URL(), Transport: s.server.Client().Transport, ContentConfig: rest.ContentConfig{
		ContentType: "application/json",
	}}
	if err := s.plugins.Start(ctx, config, s.access.Authorizer()); err != nil {
		return err
	}
	return s.chain.Start(ctx, config, s.access.Authorizer())
}

// Behind returns the server behind access.
func (s *Server) Behind() *lwtest.Server { return s.server }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close cuts the connections within the process.
func (s *Server) Close() { s.server.Close() }
