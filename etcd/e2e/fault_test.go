package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// writers write all the time, whatever happens to the servers, but for the time of a pause.
type writers struct {
	pause sync.RWMutex // held for reading by each write
	stop  context.CancelFunc
	all   sync.WaitGroup
}

// startWriters starts writers of random creations, updates, deletions and transactions.
func startWriters(t testing.TB, client *clientv3.Client, prefix string, n int) *writers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writers{stop: cancel}
	for i := range n {
		w.all.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				w.pause.RLock()
				name := fmt.Sprintf("ns/w%d-%d", i, rand.IntN(50))
				op := putOp(prefix, newThing("ns", name[3:], round))
				if rand.IntN(4) == 0 {
					op = clientv3.OpDelete(prefix + name)
				}
				ops := []clientv3.Op{op}
				if rand.IntN(3) == 0 {
					ops = append(ops, putOp(prefix, newThing("ns", fmt.Sprint("both", i), round)))
				}
				// What fails has been made or not.
				one, done := context.WithTimeout(ctx, 2*time.Second)
				_, _ = client.Txn(one).Then(ops...).Commit()
				done()
				w.pause.RUnlock()
				time.Sleep(2 * time.Millisecond) // the servers are processes of their own
			}
		})
	}
	t.Cleanup(func() { cancel(); w.all.Wait() })
	return w
}

// TestFaults: members are killed and frozen, the network breaks, all is compacted, while three
// writers go on. After each fault the store is what the cluster has, and so is the sum of the
// calls. No fault but a compaction makes an informer list again.
func TestFaults(t *testing.T) {
	c := startCluster(t, 3)
	prefix := newPrefix()
	w := startWriters(t, c.client, prefix, 3)
	const progress = 3 * time.Second
	things := collect(t, dial(t, c.endpoints()...), prefix, &etcd.Options[*thing]{Progress: progress})
	f := follow(t, things, prefix)
	// This one reaches one member alone, by a network that breaks.
	p := newProxy(t, c.members[0].endpoint())
	behind := follow(t, collect(t, dial(t, p.addr()), prefix, &etcd.Options[*thing]{Progress: progress}), prefix)
	compactAll := func() {
		rig.Met(t, time.Minute, "nothing can be compacted", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			now, err := c.client.Get(ctx, "x")
			if err == nil {
				_, err = c.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
			}
			return err == nil
		})
	}
	freeze := func(m *member, d time.Duration) {
		c.signal(m, syscall.SIGSTOP)
		time.Sleep(d)
		c.signal(m, syscall.SIGCONT)
	}
	faults := []struct {
		name      string
		do        func()
		compacted bool
	}{
		{"nothing", func() { time.Sleep(300 * time.Millisecond) }, false},
		{"the leader is killed", func() { leader, _ := c.leader(); c.kill(leader); time.Sleep(time.Second); c.start(leader) },
			false},
		{"a follower is killed", func() { _, m := c.leader(); c.kill(m); time.Sleep(time.Second); c.start(m) }, false},
		{"all are killed", func() {
			for _, m := range c.members {
				c.kill(m)
			}
			time.Sleep(time.Second)
			for _, m := range c.members {
				c.start(m)
			}
		}, false},
		{"the leader is frozen", func() { leader, _ := c.leader(); freeze(leader, 2*time.Second) }, false},
		{"the leader is frozen for longer than Progress",
			func() { leader, _ := c.leader(); freeze(leader, progress+2*time.Second) }, false},
		{"a follower is frozen", func() { _, m := c.leader(); freeze(m, progress+2*time.Second) }, false},
		{"the network breaks", func() { p.cut(); time.Sleep(300 * time.Millisecond); p.cut() }, false},
		{"nothing gets through the network", func() {
			p.set(func() { p.hole = true })
			time.Sleep(2*progress + time.Second)
			p.set(func() { p.hole = false })
		}, false},
		{"the network is slow", func() {
			p.set(func() { p.slow = 100 * time.Millisecond })
			time.Sleep(2 * time.Second)
			p.set(func() { p.slow = 0 })
		}, false},
		{"all is compacted", compactAll, true},
		{"a follower is away while all is compacted", func() {
			_, m := c.leader()
			c.kill(m)
			time.Sleep(500 * time.Millisecond)
			compactAll()
			c.start(m)
		}, true},
	}
	relists := uint64(0)
	for _, fault := range faults {
		begun := time.Now()
		fault.do()
		c.healthy()
		w.pause.Lock()
		f.caughtUp(t, c.client)
		behind.caughtUp(t, c.client)
		w.pause.Unlock()
		s, sb := f.Status(), behind.Status()
		t.Logf("%-50s %6.1f s: %d objects at %s, %d and %d watches, %d and %d relists, %d and %d failed",
			fault.name, time.Since(begun).Seconds(), s.Objects, s.ResourceVersion, s.Requests["watch"].Started,
			sb.Requests["watch"].Started, rig.Relists(s), rig.Relists(sb), s.Failed, sb.Failed)
		if now := rig.Relists(s) + rig.Relists(sb); now != relists {
			if !fault.compacted {
				t.Errorf("%s: %d relists: %v %v", fault.name, now-relists, f.errors(), behind.errors())
			}
			relists = now
		}
		if s.Epoch+sb.Epoch != 0 {
			t.Fatalf("%s: a new epoch: %v %v", fault.name, f.errors(), behind.errors())
		}
	}
}

// TestLaggingMember: an informer that has seen all goes on at a member that is 10,000 revisions
// behind: it waits, and reports neither a rewind nor an older state.
func TestLaggingMember(t *testing.T) {
	c := startCluster(t, 3)
	prefix := newPrefix()
	_, late := c.leader()
	c.kill(late)
	var ahead *member
	for _, m := range c.members {
		if m != late {
			ahead = m
		}
	}
	client := dial(t, c.endpoints()...)
	p := newProxy(t, ahead.endpoint())
	f := follow(t, collect(t, dial(t, p.addr()), prefix, nil), prefix)
	// Writing has a time of its own: on a busy machine 10,000 writes one by one take a minute or two.
	ctx := within(t, 10*time.Minute)
	for i := range 100 {
		for j := range 100 {
			noErr(t, second(c.client.Do(ctx, putOp(prefix, newThing("ns", fmt.Sprint("n", j), i)))))
		}
	}
	f.caughtUp(t, client)
	before := f.Store().ResourceVersion()
	c.start(late)
	p.set(func() { p.target = late.endpoint() })
	p.cut() // the next connection is to the one that lags
	noErr(t, second(c.client.Do(ctx, putOp(prefix, newThing("ns", "last", 1)))))
	noErr(t, second(lw.WaitFor(ctx, f.Informer, lw.Key{Namespace: "ns", Name: "last"},
		func(o *thing) bool { return o != nil })))
	f.caughtUp(t, client)
	if s := f.Status(); s.Epoch != 0 || rig.Relists(s) != 0 || f.rewound() > 0 {
		t.Errorf("from %s: epoch %d, %d relists: %v", before, s.Epoch, rig.Relists(s), f.errors())
	}
}

// A cluster is an etcd of some members, each in a process of its own.
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

func startCluster(t testing.TB, members int) *cluster {
	c := &cluster{t: t}
	dir := t.TempDir()
	var peers []string
	for i := range members {
		client, peer := freeURL(t), freeURL(t)
		m := &member{memberConfig: memberConfig{Name: fmt.Sprint("m", i), Client: client.String(), Peer: peer.String(),
			State: "new"}}
		m.Dir = filepath.Join(dir, m.Name)
		peers = append(peers, m.Name+"="+m.Peer)
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
	c.client = dial(t, c.endpoints()...)
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
