package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/go-lw/lw/verify/e2e/kubetest"
)

// serveUntil runs a real API server and its etcd on loopback, for whoever needs one: a person with
// kubectl, or the tests of any project. A test in Go can do the same by package kubetest.
//
// The kubeconfig is the admin's. Whatever ends the program, Ctrl-C or kill -9, the servers end with
// it. Their data, which Ctrl-C and SIGTERM remove, lasts as long as they do.
//
// kube is kube-apiserver: with validation, RBAC, custom resources and tokens of service accounts,
// but without controllers, scheduler and kubelet. So no Deployment has pods, and nothing is
// collected as garbage. generic has the collections of core/v1 alone, and admits everybody to all.
func serveUntil(ctx context.Context, args []string) error {
	c := cluster{out: os.Stdout, log: os.Stderr}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&c.kubeconfig, "kubeconfig", "",
		"where to write the kubeconfig, which is removed at the end; default: a temporary directory")
	flags.StringVar(&c.in, "in", "", "the directory of the command; default: this one")
	flags.Func("crds", "a file with CustomResourceDefinitions, or a directory of such files; may be given again",
		func(path string) error {
			c.crds = append(c.crds, path)
			return nil
		})
	flags.IntVar(&c.parallel, "p", 0, "compilations at once; 0: as many as CPUs")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: serve [flags] kube|generic [command [argument...]]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	return c.run(ctx, flags.Args())
}

// A cluster is what the flags describe.
type cluster struct {
	kubeconfig, in string
	crds           []string
	parallel       int
	out, log       io.Writer
}

// run serves until ctx is done, or until the command in args has ended, whose error it returns.
func (c *cluster) run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("which server, kube or generic?")
	}
	one, err := kubetest.Start(ctx, kubetest.Options{
		Kind: kubetest.Kind(args[0]), CRDs: c.crds, Kubeconfig: c.kubeconfig, Parallel: c.parallel, Log: c.log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.Stop()) }()
	if len(args) > 1 {
		return c.command(ctx, one.Kubeconfig(), args[1:])
	}
	fmt.Fprintf(c.out, "%s serves at %s until Ctrl-C\nexport KUBECONFIG=%s\n", args[0], one.URL(), one.Kubeconfig())
	<-ctx.Done()
	return nil
}

// command runs a command on the cluster of the kubeconfig. A Ctrl-C of the terminal reaches it,
// too; it gets ten seconds to end by itself.
func (c *cluster) command(ctx context.Context, kubeconfig string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.in, os.Stdin, c.out, c.log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}
