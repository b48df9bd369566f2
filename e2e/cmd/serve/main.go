// Command serve runs a real API server and its etcd on loopback, for whoever needs one: a person
// with kubectl, or the tests of any project. Both are built from Go modules alone, once: there is
// no container, and no binary is downloaded.
//
//	go run ./cmd/serve kube                    until Ctrl-C; prints where the kubeconfig is
//	go run ./cmd/serve kube go test ./...      as long as the command runs, with KUBECONFIG set
//	go run ./cmd/serve generic                 the generic server, which starts in half a second
//
// A test in Go can do the same by package kubetest.
//
// The kubeconfig is the admin's. Whatever ends the program, Ctrl-C or kill -9, the servers end with
// it. Their data, which Ctrl-C and SIGTERM remove, lasts as long as they do.
//
// kube is kube-apiserver: with validation, RBAC, custom resources and tokens of service accounts,
// but without controllers, scheduler and kubelet. So no Deployment has pods, and nothing is
// collected as garbage. generic has the collections of core/v1 alone, and admits everybody to all.
//
// For envtest of controller-runtime, which starts servers of its own, the binaries are enough; or it
// uses this server:
//
//	KUBEBUILDER_ASSETS=$(go run ./cmd/build -built kube)
//	USE_EXISTING_CLUSTER=true go run ./cmd/serve kube go test ./...
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
	"syscall"
	"time"

	"github.com/go-lw/lw/e2e/kubetest"
)

func main() {
	s := server{out: os.Stdout, log: os.Stderr}
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "where to write the kubeconfig, which is removed at the end; default: a temporary directory")
	flag.StringVar(&s.in, "in", "", "the directory of the command; default: this one")
	flag.Func("crds", "a file with CustomResourceDefinitions, or a directory of such files; may be given again", func(path string) error {
		s.crds = append(s.crds, path)
		return nil
	})
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
	crds           []string
	parallel       int
	out, log       io.Writer
}

// run serves until ctx is done, or until the command in args has ended, whose error it returns.
func (s *server) run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("serve: which server, kube or generic?")
	}
	one, err := kubetest.Start(ctx, kubetest.Options{
		Kind: kubetest.Kind(args[0]), CRDs: s.crds, Kubeconfig: s.kubeconfig, Parallel: s.parallel, Log: s.log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.Stop()) }()
	if len(args) > 1 {
		return s.command(ctx, one.Kubeconfig(), args[1:])
	}
	fmt.Fprintf(s.out, "%s serves at %s until Ctrl-C\nexport KUBECONFIG=%s\n", args[0], one.URL(), one.Kubeconfig())
	<-ctx.Done()
	return nil
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
