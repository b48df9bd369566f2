// Package child measures in processes of their own, so that one side's memory and time are no part
// of another's. A child is the same program, started again with a job in its environment.
package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/go-lw/lw/bench/internal/compare"
)

// Run does job in a child process, which has at most patience, and returns the result. variable is
// the environment variable that passes the job, as JSON. The child calls [Serve] with it.
func Run[J any](variable string, patience time.Duration, job J) (compare.Sample, error) {
	in, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), variable+"="+string(in))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("measuring process: %w\n%s", err, stderr.Bytes())
	}
	var sample compare.Sample
	if err := json.Unmarshal(out, &sample); err != nil {
		return nil, fmt.Errorf("measuring process: %w", err)
	}
	return sample, nil
}

// Serve does the job of a child process by measure, and exits. In any other process it returns at
// once.
func Serve[J any](variable string, measure func(J) (compare.Sample, error)) {
	in, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	var job J
	err := json.Unmarshal([]byte(in), &job)
	if err == nil {
		var sample compare.Sample
		if sample, err = measure(job); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(sample)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
