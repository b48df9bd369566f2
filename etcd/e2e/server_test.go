package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
)

// A server is an etcd of one member, in this process.
type server struct {
	*embed.Etcd
	endpoint string
}

// startServer starts a server with an empty store, and stops it when the test ends.
func startServer(t testing.TB, tweak ...func(*embed.Config)) *server {
	t.Helper()
	anywhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	e := runEtcd(t, t.TempDir(), anywhere, anywhere, tweak...)
	t.Cleanup(e.Close)
	return &server{e, e.Clients[0].Addr().String()}
}

// config returns that of an etcd with a directory and its addresses, for a test: no power is lost.
func config(dir string, client, peer url.URL) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir, cfg.UnsafeNoFsync = dir, true
	cfg.LogLevel, cfg.LogOutputs = "fatal", []string{"/dev/null"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	return cfg
}

// runEtcd starts an etcd of one member, and returns when it is ready.
func runEtcd(t testing.TB, dir string, client, peer url.URL, tweak ...func(*embed.Config)) *embed.Etcd {
	t.Helper()
	cfg := config(dir, client, peer)
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	for _, f := range tweak {
		f(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	noErr(t, err)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready after a minute")
	}
	return e
}

// begin starts a server, and returns a client of it, a prefix, and the things below that.
func begin(t testing.TB, tweak ...func(*embed.Config)) (*clientv3.Client, string, *etcd.Collection[*thing]) {
	t.Helper()
	client, prefix := dial(t, startServer(t, tweak...).endpoint), newPrefix()
	return client, prefix, collect(t, client, prefix, nil)
}

// dial returns a client of endpoints, which is closed when the test ends.
func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second})
}

func dialWith(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	cfg.Logger = silent
	client, err := clientv3.New(cfg)
	noErr(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func newClient(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: silent})
}

// dialLarge is dial, for writes of up to 64 MB.
func dialLarge(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: []string{endpoint}, MaxCallSendMsgSize: 64 << 20,
		MaxCallRecvMsgSize: 1 << 30})
}

// A thing is an object of a user's own, without an API server.
type thing struct {
	lw.Meta `json:"metadata"`
	Labels  map[string]string `json:"labels,omitempty"`
	N       int               `json:"n"`
	Text    string            `json:"text,omitempty"`
}

func (t *thing) GetLabels() map[string]string { return t.Labels }

func newThing(namespace, name string, n int) *thing {
	return &thing{Meta: lw.Meta{Namespace: namespace, Name: name}, N: n}
}

// collect returns a collection of things.
func collect(t testing.TB, client *clientv3.Client, prefix string,
	opts *etcd.Options[*thing]) *etcd.Collection[*thing] {
	t.Helper()
	c, err := etcd.New(client, prefix, opts)
	noErr(t, err)
	return c
}

var prefixes atomic.Int64

// newPrefix returns a prefix that no other test has.
func newPrefix() string { return fmt.Sprintf("/e2e/%d/", prefixes.Add(1)) }

// within returns a context for something that takes no time.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// silent is the logger of clients: what fails here is meant to.
var silent = zap.NewNop()

// memberEnv has what a member is, in a process that is one.
const memberEnv = "LW_ETCD_MEMBER"

// A memberConfig is one member of a cluster in processes of their own.
type memberConfig struct {
	Name, Dir, Client, Peer, Cluster string
	State                            string // new or existing
}

func TestMain(m *testing.M) {
	for env, run := range map[string]func(string) error{memberEnv: runMember, benchEnv: writeAll} {
		if text := os.Getenv(env); text != "" {
			if err := run(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// runMember is a member, until the test that started it is gone or kills it.
func runMember(text string) error {
	var m memberConfig
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	client, err := url.Parse(m.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return err
	}
	cfg := config(m.Dir, *client, *peer)
	cfg.Name, cfg.InitialCluster, cfg.ClusterState = m.Name, m.Cluster, m.State
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = io.Copy(io.Discard, os.Stdin) // until the test's end of the pipe is closed
	return err
}
