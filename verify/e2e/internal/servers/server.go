// Package servers runs real API servers and etcd as child processes on the loopback interface. It
// can kill, freeze, restart, compact, wipe and restore them.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-lw/lw/internal/verify/rig"
)

// The tokens of a Kube server. A Generic server ignores tokens.
const (
	// AdminToken is that of a member of system:masters, who may do everything and is exempt from
	// priority and fairness.
	AdminToken = "admin-token"
	UserToken  = "user-token" // that of User, in the group users
	User       = "user"
)

// A Server is one API server and its etcd. Its methods are called from one goroutine at a time.
type Server struct {
	Kind    Kind
	Dir     string // data, certificates and logs
	URL     string // https://127.0.0.1:port, the same after a restart
	EtcdURL string
	CA      []byte   // PEM
	Args    []string // flags of the API server; each replaces the default flag of the same name

	port, peerPort int
	bin            string
	api, etcd      *process
}

// New returns a server with its files in dir. It starts nothing.
func New(kind Kind, dir string, args ...string) (*Server, error) {
	bin, err := kind.Binaries()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, Dir: dir, Args: args, bin: bin}
	if s.CA, err = writeCerts(dir); err != nil {
		return nil, err
	}
	tokens := AdminToken + `,admin,admin,"system:masters"` + "\n" + UserToken + "," + User + `,user,"users"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	etcdPort := 0
	for _, port := range []*int{&s.port, &s.peerPort, &etcdPort} {
		if *port, err = rig.FreePort(); err != nil {
			return nil, err
		}
	}
	s.URL = fmt.Sprintf("https://127.0.0.1:%d", s.port)
	s.EtcdURL = fmt.Sprintf("http://127.0.0.1:%d", etcdPort)
	return s, nil
}

// Start starts etcd and the API server, and waits until both serve.
func (s *Server) Start(ctx context.Context) error {
	if err := s.StartEtcd(ctx); err != nil {
		return err
	}
	return s.StartAPI(ctx)
}

// Stop kills the API server and etcd. It may be called at any time.
func (s *Server) Stop() {
	s.KillAPI()
	s.KillEtcd()
}

// StartEtcd starts etcd with the data of its last run, and waits until it serves.
func (s *Server) StartEtcd(ctx context.Context) error {
	peer := fmt.Sprintf("http://127.0.0.1:%d", s.peerPort)
	args := append(append([]string(nil), s.Kind.etcdArgs...),
		"--name=e2e", "--data-dir="+filepath.Join(s.Dir, "etcd"),
		"--listen-client-urls="+s.EtcdURL, "--advertise-client-urls="+s.EtcdURL,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=e2e="+peer,
		// A single member starts ten times faster with these flags. It would not survive a power
		// cut, and need not.
		"--unsafe-no-fsync", "--heartbeat-interval=10", "--election-timeout=100",
		"--quota-backend-bytes=8589934592", "--log-level=warn")
	var err error
	if s.etcd, err = spawn(filepath.Join(s.Dir, "etcd.log"), filepath.Join(s.bin, s.Kind.etcd.name), args...); err != nil {
		return err
	}
	return s.etcd.await(ctx, s.etcdReady)
}

// StartAPI starts the API server and waits until it serves.
func (s *Server) StartAPI(ctx context.Context) error {
	if err := s.SpawnAPI(); err != nil {
		return err
	}
	return s.AwaitAPI(ctx)
}

// SpawnAPI starts the API server without waiting for it.
func (s *Server) SpawnAPI() error {
	var err error
	s.api, err = spawn(filepath.Join(s.Dir, "apiserver.log"), filepath.Join(s.bin, s.Kind.server.name), s.args()...)
	return err
}

// AwaitAPI waits until the API server serves and its watch caches are filled.
func (s *Server) AwaitAPI(ctx context.Context) error {
	r := s.Reader("")
	defer r.Close()
	return s.api.await(ctx, func(ctx context.Context) error {
		if s.Kind.Name == Kube.Name {
			_, err := r.Get(ctx, "/readyz")
			return err
		}
		// The generic server's /readyz does not wait for the watch caches. There is one for each
		// resource, so ask each for a list that it answers.
		for _, resource := range []string{"configmaps", "pods", "secrets", "nodes", "namespaces"} {
			if _, err := r.Get(ctx, "/api/v1/"+resource+"?resourceVersion=0&labelSelector=no%3Dsuch"); err != nil {
				return err
			}
		}
		return nil
	})
}

// KillAPI kills the API server with SIGKILL and waits for its end.
func (s *Server) KillAPI() { s.api.signal(syscall.SIGKILL) }

// KillEtcd kills etcd with SIGKILL and waits for its end.
func (s *Server) KillEtcd() { s.etcd.signal(syscall.SIGKILL) }

// FreezeAPI stops the API server with SIGSTOP. Its connections stay open, and nothing comes from
// them.
func (s *Server) FreezeAPI() { s.api.signal(syscall.SIGSTOP) }

// ThawAPI lets a frozen API server continue.
func (s *Server) ThawAPI() { s.api.signal(syscall.SIGCONT) }

// WipeEtcd deletes the data of etcd, which must not run. Its revisions then begin again at 1.
func (s *Server) WipeEtcd() error {
	if s.etcd.running() {
		return errors.New("servers: etcd runs")
	}
	return os.RemoveAll(filepath.Join(s.Dir, "etcd"))
}

// BackupEtcd copies the data of etcd, which must not run, to dir, which must not exist.
func (s *Server) BackupEtcd(dir string) error {
	if s.etcd.running() {
		return errors.New("servers: etcd runs")
	}
	return os.CopyFS(dir, os.DirFS(filepath.Join(s.Dir, "etcd")))
}

// RestoreEtcd puts a copy of dir, which BackupEtcd has made, in the place of etcd's data. Its
// revisions then go on from those of the backup, with other content.
func (s *Server) RestoreEtcd(dir string) error {
	if err := s.WipeEtcd(); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(s.Dir, "etcd"), os.DirFS(dir))
}

// APIProcess and EtcdProcess return the ids of the processes, 0 before the first start.
func (s *Server) APIProcess() int  { return s.api.pid() }
func (s *Server) EtcdProcess() int { return s.etcd.pid() }

// args returns the API server's flags. A flag of s.Args replaces the default one: a list flag that
// is given twice would add up.
func (s *Server) args() []string {
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	args := []string{
		"--etcd-servers=" + s.EtcdURL, "--etcd-compaction-interval=0",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", s.port),
		"--tls-cert-file=" + file("tls.crt"), "--tls-private-key-file=" + file("tls.key"),
	}
	if s.Kind.Name == Kube.Name {
		args = append(args,
			"--advertise-address=127.0.0.1", "--cert-dir="+s.Dir, "--token-auth-file="+file("tokens.csv"),
			"--authorization-mode=RBAC",
			"--service-account-key-file="+file("sa.key"), "--service-account-signing-key-file="+file("sa.key"),
			"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
			// ServiceAccount is off because no controller makes the accounts that pods would need.
			"--disable-admission-plugins=ServiceAccount,NamespaceLifecycle,LimitRanger,ResourceQuota,PodSecurity,"+
				"DefaultTolerationSeconds,Priority,RuntimeClass,TaintNodesByCondition",
			"--endpoint-reconciler-type=none", "--profiling=false", "--v=1")
	}
	replaced := map[string]bool{}
	for _, arg := range s.Args {
		replaced[flagName(arg)] = true
	}
	var all []string
	for _, arg := range args {
		if !replaced[flagName(arg)] {
			all = append(all, arg)
		}
	}
	return append(all, s.Args...)
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}

func (p *process) pid() int {
	if p == nil {
		return 0
	}
	return p.cmd.Process.Pid
}
