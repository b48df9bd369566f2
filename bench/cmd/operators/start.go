package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/go-lw/lw/bench/internal/bound"
)

const boundVariable = "LW_OPERATORS_BOUND"

// become makes this process a program that the kernel kills if it takes more than it may, if the
// environment says so: its arguments are those of the program.
func become() {
	var bytes int64
	if text, ok := os.LookupEnv(boundVariable); !ok {
		return
	} else if err := json.Unmarshal([]byte(text), &bytes); err != nil {
		fmt.Fprintln(os.Stderr, boundVariable, err)
		os.Exit(1)
	}
	_ = os.Unsetenv(boundVariable) // it is there
	if err := bound.Enter(bytes); err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err) // the parent watches
	}
	err := syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	fmt.Fprintln(os.Stderr, os.Args[1], err)
	os.Exit(1)
}

// An end is what became of one start.
type end struct {
	how        string        // "killed", or "ended" by itself; "": it lives
	after      time.Duration // until then
	peak       int64
	reconciled int
}

func (e end) String() string {
	if e.how != "" {
		return fmt.Sprintf("%s after %v, reconciled %d", e.how, e.after.Round(time.Second), e.reconciled)
	}
	return fmt.Sprintf("lives, %d MiB, reconciled %d", e.peak>>20, e.reconciled)
}

func (e end) row(side string) string {
	if e.how != "" {
		return fmt.Sprintf("%s | %s after %.0f s | – | %d of 2", side, e.how, e.after.Seconds(), e.reconciled)
	}
	return fmt.Sprintf("%s | **no** | **%d** | %d of 2", side, e.peak>>20, e.reconciled)
}

// start starts the operator among the objects of the attack on s, in dir.
func (a attack) start(ctx context.Context, s *server, o *operator, lw bool, bin, dir string) (e end, err error) {
	certs := filepath.Join(dir, "certs")
	if err := writeCerts(certs); err != nil {
		return e, err
	}
	self, err := os.Executable()
	if err != nil {
		return e, err
	}
	args, env, err := o.start(dir, certs)
	if err != nil {
		return e, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{o.binary(bin, lw)}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+s.kubeconfig, fmt.Sprint(boundVariable, "=", a.memory), "GOMEMLIMIT=", "GOGC=")
	if lw {
		cmd.Env = append(cmd.Env, "LW_PACK=1", "LW_LIMIT="+a.limit)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// A process that is killed may be amid a write of what it says.
	cmd.WaitDelay = 10 * time.Second
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return e, err
	}
	var waited error
	ended := make(chan struct{})
	go func() { waited = cmd.Wait(); bound.Release(); close(ended) }()
	defer func() { cancel(); <-ended }()
	if !bound.Possible() {
		go bound.Watch(cmd.Process.Pid, a.memory)
	}
	for i := range 2 {
		if i == 1 {
			if err := a.storm(ctx, s); err != nil {
				return e, err
			}
		}
		name := fmt.Sprint("proof-", filepath.Base(o.binary(bin, lw)), "-", i)
		if err := s.apply(ctx, strings.ReplaceAll(o.proof, "NAME", name)); err != nil {
			return e, err
		}
		for asked := time.Now(); ; {
			if peak, err := bound.Peak(cmd.Process.Pid); err == nil {
				e.peak = peak
			}
			if s.has(ctx, name, o.made) {
				e.reconciled++
				break
			}
			select {
			case <-ended:
				if e.how, e.after = "ended", time.Since(begun); bound.Killed(waited) {
					e.how = "killed"
				} else if lw {
					err = fmt.Errorf("it has ended: %v: %s", waited, tail(said.String()))
				}
				return e, err // who has too little memory may also be too slow for its own patience
			case <-time.After(100 * time.Millisecond):
			}
			if time.Since(asked) > a.patience {
				cancel()
				<-ended
				return e, fmt.Errorf("%s: %s was not reconciled in %v: %s", a.side(lw), name, a.patience, tail(said.String()))
			}
		}
	}
	return e, nil
}

// tail is the end of what a program has said.
func tail(text string) string { return "…" + text[max(0, len(text)-4000):] }

// writeCerts writes a certificate under the names that operators look for.
func writeCerts(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	pem, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"tls.crt": pem, "tls.key": key, "apiserver.crt": pem, "apiserver.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
