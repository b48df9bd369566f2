package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A child is the process of a follower. The two talk in lines: the child writes "synced", the
// parent writes "begin", the child writes "begun", and its result when it has seen the end of the
// storm.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Scanner
}

// startChild starts the process of a follower.
func startChild(ctx context.Context, a assignment) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: a.Follower, cmd: exec.CommandContext(ctx, self, "-child", a.String())}
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewScanner(out)
	return c, c.cmd.Start()
}

// tell writes a line to the child.
func (c *child) tell(line string) error {
	_, err := fmt.Fprintln(c.in, line)
	return err
}

// expect reads a line from the child, and fails if it is another one.
func (c *child) expect(line string) error {
	if !c.out.Scan() {
		return fmt.Errorf("%s ended early: %v", c.name, c.out.Err())
	}
	if c.out.Text() != line {
		return fmt.Errorf("%s said %q, not %q", c.name, c.out.Text(), line)
	}
	return nil
}

// result reads the child's result.
func (c *child) result() (result, error) {
	var r result
	if !c.out.Scan() {
		return r, fmt.Errorf("%s ended early: %v", c.name, c.out.Err())
	}
	return r, json.Unmarshal(c.out.Bytes(), &r)
}

// kill ends the process. A child whose parent is gone ends by itself, because its input is closed.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
