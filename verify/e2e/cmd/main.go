// This command builds, runs and measures the servers that the tests of this module follow.
//
//	go run ./cmd build [generic|kube]      builds API servers and etcd, from Go modules alone
//	go run ./cmd serve kube [command...]   a cluster on loopback, until Ctrl-C or the command's end
//	go run ./cmd relay -upstream URL       a relay of a whole API server
//	go run ./cmd measure                   what watchers and lists cost a server, and a relay of it
//
// Each has flags: go run ./cmd serve -help.
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
	"syscall"
	"time"

	"github.com/go-lw/lw/verify/e2e/internal/progress"
	"github.com/go-lw/lw/verify/e2e/internal/relay"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

var commands = map[string]func(ctx context.Context, args []string) error{
	"build": build, "serve": serveUntil, "relay": relayUntil, "measure": measure, "child": child,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cmd build|serve|relay|measure [flags]")
		os.Exit(2)
	}
	name, args := os.Args[1], os.Args[2:]
	// A terminal that is closed is one more way to end it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := commands[name](ctx, args)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && name == "serve" && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode()) // the command has said what is wrong
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// build builds the servers that args name, or both, into the user's cache directory. It does not
// build again what is there already.
func build(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	parallel := flags.Int("p", 0, "compilations at once; 0: as many as CPUs")
	built := flags.Bool("built", false, "build nothing: print the directory of each server, and fail if one is not built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, name := range flags.Args() {
		if !slices.ContainsFunc(servers.Kinds, func(k servers.Kind) bool { return k.Name == name }) {
			return fmt.Errorf("no server is named %q", name)
		}
	}
	for _, kind := range servers.Kinds {
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), kind.Name) {
			continue
		}
		if *built {
			dir, err := kind.Binaries()
			if err != nil {
				return err
			}
			fmt.Println(dir)
			continue
		}
		start := time.Now()
		done := progress.Start(os.Stderr, "build "+kind.Name)
		dir, err := kind.Build(ctx, *parallel, os.Stderr)
		done()
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s (%v)\n", kind.Name, dir, time.Since(start).Round(time.Second))
	}
	return nil
}

// relayUntil serves with package serve what somebody asks for, and forwards the rest. It writes its
// URL to the standard output, and ends with the standard input.
func relayUntil(ctx context.Context, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return relay.Main(ctx, args, os.Stdout)
}
