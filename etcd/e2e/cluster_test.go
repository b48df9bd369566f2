package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-lw/lw/internal/rig"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A cluster is an etcd of three members, each in a process of its own.
type cluster struct {
	t       testing.TB
	members []*member
	client  *clientv3.Client // of all members
}

type member struct {
	memberConfig
	cmd *exec.Cmd // nil while it is down
}

func (m *member) endpoint() string { return strings.TrimPrefix(m.Client, "http://") }

func startCluster(t testing.TB) *cluster {
	c := &cluster{t: t}
	dir := t.TempDir()
	var peers, endpoints []string
	for i := range 3 {
		client, peer := freeURL(t), freeURL(t)
		m := &member{memberConfig: memberConfig{Name: fmt.Sprint("m", i), Client: client.String(), Peer: peer.String(), State: "new"}}
		m.Dir = filepath.Join(dir, m.Name)
		peers, endpoints = append(peers, m.Name+"="+m.Peer), append(endpoints, m.endpoint())
		c.members = append(c.members, m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			c.kill(m)
		}
	})
	for _, m := range c.members {
		m.Cluster = strings.Join(peers, ",")
		c.start(m)
	}
	c.client = dial(t, endpoints...)
	c.healthy()
	return c
}

// endpoints returns those of all members.
func (c *cluster) endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, m.endpoint())
	}
	return all
}

func (c *cluster) start(m *member) {
	c.t.Helper()
	text, err := json.Marshal(m.memberConfig)
	noErr(c.t, err)
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	m.cmd.Stderr = os.Stderr
	noErr(c.t, second(m.cmd.StdinPipe())) // its end closes with this process
	noErr(c.t, m.cmd.Start())
}

// kill is kill -9.
func (c *cluster) kill(m *member) {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
		m.cmd = nil
	}
}

func (c *cluster) signal(m *member, s syscall.Signal) {
	c.t.Helper()
	noErr(c.t, m.cmd.Process.Signal(s))
}

// healthy waits until each member that runs answers a read that needs a quorum.
func (c *cluster) healthy() {
	c.t.Helper()
	for _, m := range c.members {
		if m.cmd == nil {
			continue
		}
		one := dial(c.t, m.endpoint())
		rig.Met(c.t, time.Minute, m.Name+" does not answer", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_, err := one.Get(ctx, "x")
			return err == nil
		})
		one.Close()
	}
}

// leader returns the member that leads, and another one.
func (c *cluster) leader() (leader, follower *member) {
	c.t.Helper()
	rig.Met(c.t, time.Minute, "nobody leads", func() bool {
		leader, follower = nil, nil
		for _, m := range c.members {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			status, err := c.client.Status(ctx, m.endpoint())
			cancel()
			switch {
			case err != nil:
			case status.Leader == status.Header.MemberId:
				leader = m
			default:
				follower = m
			}
		}
		return leader != nil && follower != nil
	})
	return leader, follower
}
