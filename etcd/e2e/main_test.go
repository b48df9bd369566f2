package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

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
