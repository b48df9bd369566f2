// Package kubetest runs a real API server and its etcd for the tests of any project. Both are built
// once, from Go modules alone, and kept in the user's cache directory: there is no container, and
// no binary is downloaded. It needs the go command and Linux.
//
//	server := kubetest.New(t, kubetest.Options{CRDs: []string{"config/crd"}})
//	client, err := kubernetes.NewForConfig(server.RESTConfig())
//
// The first build takes about five minutes of two CPUs for each [Kind], of which every ten seconds
// a line is written to [Options.Log]. A test that should not wait for it asks [Built] first. Test
// binaries that run at the same time, as those of go test ./..., build once.
//
// A whole package shares a server that TestMain starts with [Start]; tests then use namespaces of
// their own. The server ends with the program, whatever ends that.
//
// There are no controllers, no scheduler and no kubelet, as in envtest: no Deployment has pods, and
// nothing is collected as garbage. envtest itself runs on these binaries as well; see [Binaries].
package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/verify/e2e/internal/progress"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// A Kind is a kind of server.
type Kind string

const (
	// Kube is kube-apiserver v1.36.3 with etcd v3.6.8: with validation, RBAC, custom resources and
	// tokens of service accounts. It starts in some seconds.
	Kube Kind = "kube"
	// Generic is a k8s.io/apiserver v0.37.2 generic server with etcd v3.7.0. It has the collections
	// of core/v1 alone, validates nothing, and admits everybody to all. It starts in half a second.
	Generic Kind = "generic"
)

// Options say which server. The zero value is a kube-apiserver.
type Options struct {
	Kind Kind // default: Kube
	// CRDs are files with CustomResourceDefinitions in YAML or JSON, and directories of such files,
	// of which those in directories below are not read. Start returns when they are served.
	CRDs []string
	// Args are flags of the API server, such as --runtime-config=api/all=true. Each replaces the one
	// of the same name that the server has otherwise.
	Args []string
	// Kubeconfig is where the kubeconfig of the admin is written. Default: in a temporary directory.
	Kubeconfig string
	Parallel   int       // compilations at once; default: as many as CPUs
	Log        io.Writer // what is built; default: os.Stderr
}

// startPatience is how long a server that is built may take to start.
const startPatience = 2 * time.Minute

// A Server is an API server that runs, with its etcd.
type Server struct {
	server     *servers.Server
	dir        string
	kubeconfig string
}

// New starts a server for a test, which ends with it. It fails the test if that is not possible.
// What it builds, it logs to opts.Log, since the output of a test that goes on is not shown.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start builds a server unless it is built, starts it, and returns when it serves everything. ctx
// ends the start alone. The caller calls [Server.Stop].
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	kind, err := kindOf(opts.Kind)
	if err != nil {
		return nil, err
	}
	crds, err := readCRDs(opts.CRDs)
	if err != nil {
		return nil, err
	}
	if len(crds) > 0 && kind.Name != servers.Kube.Name {
		return nil, fmt.Errorf("kubetest: a %s server has no custom resources", kind.Name)
	}
	if _, err := kind.Binaries(); err != nil {
		log := opts.Log
		if log == nil {
			log = os.Stderr
		}
		done := progress.Start(log, "build "+kind.Name)
		_, err := kind.Build(ctx, opts.Parallel, log)
		done()
		if err != nil {
			return nil, fmt.Errorf("kubetest: %w", err)
		}
	}
	s := &Server{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("kubetest: %w", err), s.Stop())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "lw-kubetest-"); err != nil {
		return nil, err
	}
	one, err := servers.New(kind, s.dir, opts.Args...)
	if err != nil {
		return nil, err
	}
	s.server = one
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := s.server.Start(ctx); err != nil {
		return nil, err
	}
	file := opts.Kubeconfig
	if file == "" {
		file = filepath.Join(s.dir, "kubeconfig")
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	if err := s.server.WriteKubeconfig(file); err != nil {
		return nil, err
	}
	s.kubeconfig = file
	r := s.server.Reader("")
	defer r.Close()
	if err := install(ctx, r, crds); err != nil {
		return nil, err
	}
	return s, nil
}

// Stop ends the server and removes all its files. It may be called again.
func (s *Server) Stop() error {
	var err error
	if s.server != nil {
		s.server.Stop()
	}
	if s.kubeconfig != "" {
		if err = os.Remove(s.kubeconfig); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		s.kubeconfig = ""
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
		s.dir = ""
	}
	return err
}

// URL returns the address of the API server, such as https://127.0.0.1:20000.
func (s *Server) URL() string { return s.server.URL }

// CA returns the certificate, in PEM, that the server's own is signed with.
func (s *Server) CA() []byte { return s.server.CA }

// Token returns the bearer token of the admin, who may do everything.
func (s *Server) Token() string { return servers.AdminToken }

// Kubeconfig returns the path of the kubeconfig of the admin. Nobody but its owner may read it. A
// program that is started with it as KUBECONFIG uses the server; and so does envtest, if
// USE_EXISTING_CLUSTER is true.
func (s *Server) Kubeconfig() string { return s.kubeconfig }

// RESTConfig returns the configuration of a client of the admin, which is the caller's own. As that
// of envtest, it is hardly ever slowed down by the client.
func (s *Server) RESTConfig() *rest.Config {
	return &rest.Config{
		Host: s.URL(), BearerToken: s.Token(), TLSClientConfig: rest.TLSClientConfig{CAData: s.CA()},
		QPS: 1000, Burst: 2000,
	}
}

// Built returns nil if a server is built, so that it starts at once. Its error wraps fs.ErrNotExist
// otherwise, and says how to build it.
func Built(kind Kind) error {
	_, err := Binaries(kind)
	return err
}

// Binaries returns the directory of the binaries of a server that is built. That of Kube has an
// etcd and a kube-apiserver, and is what envtest looks for in KUBEBUILDER_ASSETS, or in
// BinaryAssetsDirectory of its Environment:
//
//	env := &envtest.Environment{BinaryAssetsDirectory: dir}
func Binaries(kind Kind) (dir string, err error) {
	k, err := kindOf(kind)
	if err != nil {
		return "", err
	}
	return k.Binaries()
}

func kindOf(name Kind) (servers.Kind, error) {
	if name == "" {
		name = Kube
	}
	for _, kind := range servers.Kinds {
		if kind.Name == string(name) {
			return kind, nil
		}
	}
	return servers.Kind{}, fmt.Errorf("kubetest: no server is named %q: kube or generic", name)
}
