// Package early is what lwenvtest does without Kubernetes' packages. envtest starts four processes
// for one environment, and only one of them is an API server. The other three, etcd and two
// questions for flags, would each spend 0.1 s and 40 MB on tables of types that they never use. So
// they run in this package's init, which comes before those of the packages that it does not import.
package early

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The names under which envtest starts the program.
const (
	Server = "kube-apiserver"
	Etcd   = "etcd"
)

func init() {
	name := Name(os.Args[0])
	asks := slices.ContainsFunc(os.Args[1:], func(arg string) bool { return strings.TrimLeft(arg, "-") == "help" })
	if name != Etcd && !(name == Server && asks) {
		return
	}
	if err := run(name, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lwenvtest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Name returns what the program is called.
func Name(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

func run(name string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if name == Etcd {
		return etcd(ctx, args, os.Stdout)
	}
	return help(os.Stdout, name, "an API server in memory, for tests", append(Known, Silent...))
}
