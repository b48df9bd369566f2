// Command serve runs a real API server and its etcd on loopback, for whoever needs one: a person
// with kubectl, or the tests of any project. Both are built from Go modules alone, once: there is
// no container, and no binary is downloaded.
//
//	go run ./cmd/serve kube                    until Ctrl-C; prints where the kubeconfig is
//	go run ./cmd/serve kube go test ./...      as long as the command runs, with KUBECONFIG set
//	go run ./cmd/serve generic                 the generic server, which starts in half a second
//
// The kubeconfig is the admin's. Whatever ends the program, Ctrl-C or kill -9, the servers end with
// it. Their data, which Ctrl-C and SIGTERM remove, lasts as long as they do.
//
// kube is kube-apiserver: with validation, RBAC, custom resources and tokens of service accounts,
// but without controllers, scheduler and kubelet. So no Deployment has pods, and nothing is
// collected as garbage. generic has the collections of core/v1 alone, and admits everybody to all.
//
// For envtest of controller-runtime, which starts servers of its own, the binaries are enough:
//
//	KUBEBUILDER_ASSETS=$(go run ./cmd/build -built kube)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-lw/lw/e2e/internal/servers"
	"github.com/go-lw/lw/internal/progress"
)

func main() {
	s := server{out: os.Stdout, log: os.Stderr}
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "where to write the kubeconfig, which is removed at the end; default: a temporary directory")
	flag.StringVar(&s.in, "in", "", "the directory of the command; default: this one")
	flag.IntVar(&s.parallel, "p", 0, "compilations at once; 0: as many as CPUs")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: serve [flags] kube|generic [command [argument...]]")
		flag.PrintDefaults()
	}
	flag.Parse()
	// A terminal that is closed is one more way to end it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := s.run(ctx, flag.Args())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode()) // the command has said what is wrong
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A server is what the flags describe.
type server struct {
	kubeconfig, in string
	parallel       int
	out, log       io.Writer
}

// run serves until ctx is done, or until the command in args has ended, whose error it returns.
func (s *server) run(ctx context.Context, args []string) (err error) {
	kind, err := kindOf(args)
	if err != nil {
		return err
	}
	done := progress.Start(s.log, "build "+kind.Name)
	_, err = kind.Build(ctx, s.parallel, s.log)
	done()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lw-serve-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	one, err := servers.New(kind, dir)
	if err != nil {
		return err
	}
	defer one.Stop()
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := one.Start(starting); err != nil {
		return err
	}
	file := s.kubeconfig
	if file == "" {
		file = filepath.Join(dir, "kubeconfig")
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	if err := one.WriteKubeconfig(file); err != nil {
		return err
	}
	defer os.Remove(file)
	if len(args) > 1 {
		return s.command(ctx, file, args[1:])
	}
	fmt.Fprintf(s.out, "%s serves at %s until Ctrl-C\nexport KUBECONFIG=%s\n", kind.Name, one.URL, file)
	<-ctx.Done()
	return nil
}

// kindOf returns the server that the first of args names.
func kindOf(args []string) (servers.Kind, error) {
	if len(args) == 0 {
		return servers.Kind{}, errors.New("serve: which server, kube or generic?")
	}
	for _, kind := range servers.Kinds {
		if kind.Name == args[0] {
			return kind, nil
		}
	}
	return servers.Kind{}, fmt.Errorf("serve: no server is named %q: kube or generic", args[0])
}

// command runs a command on the cluster of the kubeconfig. A Ctrl-C of the terminal reaches it, too;
// it gets ten seconds to end by itself.
func (s *server) command(ctx context.Context, kubeconfig string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, os.Stdin, s.out, s.log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}
