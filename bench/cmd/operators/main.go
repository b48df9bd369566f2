// Operators attacks operators of the field, unmodified: a user who may edit one namespace makes
// many ConfigMaps, as large as the server takes them, of content that does not pack. Each operator
// is built twice, by go and by lwbuild, and started in the memory that its pod might have, where it
// has to list all that is there, to reconcile, to follow a storm of updates, and to reconcile
// again.
//
//	go run ./cmd/operators # 700 ConfigMaps of 900 KB, in 512 MiB, LW_LIMIT=256MiB
//	go run ./cmd/operators -resource secrets -keep /tmp/bin trainer
//
// The server is cmd/lwenvtest, and the modules come from the module proxy. A process is killed by
// the kernel if a memory cgroup can be made, and by a watcher of its RSS otherwise. The command
// fails if an operator that lwbuild has built is killed, ends or does not reconcile, or if the
// other one lives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-lw/lw/bench/internal/bound"
)

func main() {
	become()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(1)
	}
}

// An attack is what the operators have to bear.
type attack struct {
	n, size  int
	resource string
	memory   int64 // of a process, bytes
	limit    string
	patience time.Duration
}

func run(ctx context.Context) error {
	var a attack
	flag.IntVar(&a.n, "n", 700, "how many objects there are")
	flag.IntVar(&a.size, "size", 900_000, "bytes of each")
	flag.StringVar(&a.resource, "resource", "configmaps", "what they are: configmaps or secrets")
	memory := flag.Int64("memory", 512, "MiB that a process may take")
	flag.StringVar(&a.limit, "limit", "256MiB", "LW_LIMIT")
	flag.DurationVar(&a.patience, "patience", 10*time.Minute, "how long a reconciliation may take")
	keep := flag.String("keep", "", "the `folder` of what was built: what is there is not built again")
	flag.Parse()
	a.memory = *memory << 20
	if a.resource != "configmaps" && a.resource != "secrets" {
		return fmt.Errorf("-resource: there is no %q", a.resource)
	}
	tmp, err := os.MkdirTemp("", "operators-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if *keep == "" {
		*keep = filepath.Join(tmp, "bin")
	}
	bin, err := filepath.Abs(*keep)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(bin, 0o777); err != nil {
		return err
	}
	var chosen []*operator
	for i := range operators {
		if names := flag.Args(); len(names) == 0 || slices.Contains(names, operators[i].name) {
			chosen = append(chosen, &operators[i])
		}
	}
	for _, o := range chosen {
		if err := o.build(bin, filepath.Join(tmp, o.name)); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	if chosen == nil {
		return fmt.Errorf("there is no operator %q", flag.Args())
	}
	return a.on(ctx, chosen, bin, tmp)
}

// on attacks the operators, whose binaries are in bin, on a server of their own, and prints the
// table.
func (a attack) on(ctx context.Context, chosen []*operator, bin, tmp string) error {
	s, err := newServer(ctx, filepath.Join(bin, "lwenvtest"), tmp)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := a.fill(ctx, s); err != nil {
		return err
	}
	var rows, failed []string
	for _, o := range chosen {
		if err := s.applyFiles(ctx, o.crdFiles); err != nil {
			return err
		}
		for _, lw := range []bool{false, true} {
			dir := filepath.Join(tmp, fmt.Sprint(o.name, "-", lw))
			end, err := a.start(ctx, s, o, lw, bin, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			fmt.Fprintf(os.Stderr, "operators: %s %s: %s\n", o.name, a.side(lw), end)
			rows = append(rows, fmt.Sprintf("| %s %s | %s |", o.module, o.version, end.row(a.side(lw))))
			if lw == (end.how != "") {
				failed = append(failed, o.name+" "+a.side(lw)+": "+end.String())
			}
		}
	}
	fmt.Printf("%d %s of %d bytes that do not pack, %d MiB for each process:\n\n", a.n, a.resource, a.size, a.memory>>20)
	fmt.Println("| operator | | dead | peak RSS, MiB | reconciled |\n|---|---|---|---|---|")
	fmt.Println(strings.Join(rows, "\n"))
	if !bound.Possible() {
		fmt.Println("\nThe bound was kept by a watcher of RSS: there are no cgroups here.")
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	return nil
}

// side says how the operator was built and started.
func (a attack) side(lw bool) string {
	if lw {
		return fmt.Sprintf("by lwbuild, `LW_PACK=1 LW_LIMIT=%s`, no line changed", a.limit)
	}
	return "as it is"
}
