// Command lwenvtest runs the tests of controllers that use envtest, without kube-apiserver and etcd:
//
//	go run github.com/go-lw/lw/cmd/lwenvtest -- go test ./...
//	KUBEBUILDER_ASSETS=$(go run github.com/go-lw/lw/cmd/lwenvtest -assets) go test ./...
//	go run github.com/go-lw/lw/cmd/lwenvtest -unkind -- go test ./...
//	go run github.com/go-lw/lw/cmd/lwenvtest serve
//
// The first line runs a command with a KUBEBUILDER_ASSETS whose kube-apiserver and etcd are
// lwenvtest. The second one prints that folder, for a Makefile. The third one runs the command twice,
// the second time with a server that is as unkind as a real one may be. If that fails, it finds out
// by which kind of fault, and says how to repeat it. The fourth one serves until it is interrupted,
// and prints the path of a kubeconfig for kubectl, k9s or a client in any language.
//
// The server is that of package lwtest, with Kubernetes' built-in kinds, CustomResourceDefinitions,
// webhooks, admission policies and RBAC. It keeps everything in memory. It is for tests: it listens
// on a loopback address and nowhere else.
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
	"slices"
	"strings"
	"syscall"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/early"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args, os.Stdout, os.Stderr)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "lwenvtest:", err)
		os.Exit(1)
	}
}

// run does what the name of the program says, which is args[0]. That of etcd is for package early.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if early.Name(args[0]) == early.Server {
		return runServer(ctx, args[1:], stderr)
	}
	return command(ctx, args[1:], stdout, stderr)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("lwenvtest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: lwenvtest [flags] -- COMMAND [ARGUMENT ...]\n       lwenvtest -assets\n       lwenvtest serve [flags]\n")
		flags.PrintDefaults()
	}
	assets := flags.Bool("assets", false, "print the folder for KUBEBUILDER_ASSETS")
	day := unkind.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := checkDay(day); err != nil {
		return err
	}
	switch rest := flags.Args(); {
	case *assets && len(rest) == 0:
		dir, err := assetsDir()
		if err == nil {
			_, err = fmt.Fprintln(stdout, dir)
		}
		return err
	case *assets || len(rest) == 0:
		flags.Usage()
		return errors.New("one of COMMAND, -assets and serve is needed")
	case rest[0] == "serve":
		return serve(ctx, rest[1:], stdout, stderr)
	default:
		dir, err := assetsDir()
		if err != nil {
			return err
		}
		if day.Seed != 0 {
			return runUnkind(ctx, *day, dir, rest, stdout, stderr)
		}
		return runCommand(ctx, dir, rest, os.Environ(), stdout, stderr)
	}
}

// runCommand runs a command whose envtest finds the assets.
func runCommand(ctx context.Context, assets string, args, env []string, stdout, stderr io.Writer) error {
	// An interrupt reaches the command by itself, which belongs to the same terminal. A SIGTERM
	// does not.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) == nil {
			return nil
		}
		return cmd.Process.Kill() // Windows has no such signal
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.Env = append(slices.DeleteFunc(slices.Clone(env), elsewhere), "KUBEBUILDER_ASSETS="+assets)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return err
}

// elsewhere reports whether a variable would have envtest start another server, or none. One that is
// empty does so as well: envtest takes it for the path of a program.
func elsewhere(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	switch name {
	case "TEST_ASSET_KUBE_APISERVER", "TEST_ASSET_ETCD", "TEST_ASSET_KUBECTL", "USE_EXISTING_CLUSTER":
		return true
	}
	return false
}
