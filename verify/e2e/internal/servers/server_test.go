package servers_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// TestDisturbances drives every way to disturb a server without lw, so that a fault test that fails
// points at lw.
func TestDisturbances(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := servers.New(servers.Generic, t.TempDir())
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("LW_E2E_REQUIRED") == "" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	rig.OK(t, s.Start(ctx))
	r := s.Reader("")
	defer r.Close()
	keys := func() map[string]bool {
		t.Helper()
		objects, _, err := r.List(ctx, "/api/v1/configmaps")
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for key := range objects {
			names[key] = true
		}
		return names
	}
	configMap := func(name string) map[string]any {
		return map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": name,
			"namespace": "n"}}
	}
	rig.Must[[]byte](t)(r.Do(ctx, "POST", "/api/v1/namespaces/n/configmaps", "", configMap("a")))
	seed := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"n","uid":"u"}}`)
	rig.OK(t, s.Put(ctx, map[string][]byte{"/registry/configmaps/n/b": seed}))
	want := map[string]bool{"n/a": true, "n/b": true}
	if diff := cmp.Diff(want, keys()); diff != "" {
		t.Errorf("after two writes (-want +got):\n%s", diff)
	}

	s.KillAPI()
	if _, err := r.Get(ctx, "/api/v1/configmaps"); err == nil {
		t.Error("a killed server answers")
	}
	rig.OK(t, s.StartAPI(ctx))
	if diff := cmp.Diff(want, keys()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}

	s.FreezeAPI()
	frozen, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	if _, err := r.Get(frozen, "/api/v1/configmaps"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server answers: %v", err)
	}
	stop()
	s.ThawAPI()
	if diff := cmp.Diff(want, keys()); diff != "" {
		t.Errorf("after it was frozen (-want +got):\n%s", diff)
	}

	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	rig.OK(t, s.BackupEtcd(backup))
	rig.OK(t, s.Start(ctx))
	if err := s.BackupEtcd(backup + "2"); err == nil {
		t.Error("a backup of an etcd that runs")
	}
	before := rig.Must[int64](t)(s.Revision(ctx))
	rig.Must[[]byte](t)(r.Do(ctx, "POST", "/api/v1/namespaces/n/configmaps", "", configMap("c")))
	s.Stop()
	rig.OK(t, s.RestoreEtcd(backup))
	rig.OK(t, s.Start(ctx))
	if diff := cmp.Diff(want, keys()); diff != "" {
		t.Errorf("after it was restored (-want +got):\n%s", diff)
	}
	if after, err := s.Revision(ctx); err != nil || after != before {
		t.Errorf("the revision of the backup is %d, %v, want %d", after, err, before)
	}

	revision := rig.Must[int64](t)(s.Compact(ctx))
	s.Stop()
	rig.OK(t, s.WipeEtcd())
	rig.OK(t, s.Start(ctx))
	if diff := cmp.Diff(map[string]bool{}, keys()); diff != "" {
		t.Errorf("after the wipe (-want +got):\n%s", diff)
	}
	wiped, err := s.Revision(ctx)
	if err != nil || wiped >= revision {
		t.Errorf("revision after the wipe: %d, %v, want less than %d", wiped, err, revision)
	}
	var status *servers.StatusError
	if _, err := r.Get(ctx, fmt.Sprintf("/api/v1/configmaps?resourceVersion=%d", revision+100)); !errors.As(err,
		&status) || status.Code != 504 {
		t.Errorf("list of the future: %v, want 504", err)
	}
}
