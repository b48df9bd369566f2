package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// dialAs returns a client with a name and a password.
func dialAs(t testing.TB, endpoint, name, password string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: []string{endpoint}, Username: name, Password: password,
		DialTimeout: 10 * time.Second})
}

// addUser adds a user with a role of the same name.
func addUser(ctx context.Context, t testing.TB, client *clientv3.Client, name, password string) {
	t.Helper()
	noErr(t, second(client.UserAdd(ctx, name, password)))
	noErr(t, second(client.UserGrantRole(ctx, name, name)))
}

// TestAuth: auth is switched on while informers follow, one with credentials, one without and one
// whose role does not have the prefix; and off again. The errors are 401 and 403, and all are right
// in the end. The token expires within a second, so that each new stream needs another one.
func TestAuth(t *testing.T) {
	plain, prefix, things := begin(t, func(cfg *embed.Config) { cfg.AuthTokenTTL = 1 })
	endpoint := plain.Endpoints()[0]
	ctx := within(t, time.Minute)
	w := &writer{t, things}
	w.put("a", 5, 1)

	addUser(ctx, t, plain, "root", "r")
	for user, from := range map[string]string{"reader": prefix, "stranger": "/elsewhere/"} {
		noErr(t, second(plain.RoleAdd(ctx, user)))
		noErr(t, second(plain.RoleGrantPermission(ctx, user, from, clientv3.GetPrefixRangeEnd(from),
			clientv3.PermissionType(clientv3.PermReadWrite))))
		addUser(ctx, t, plain, user, "p")
	}
	p := newProxy(t, endpoint)
	anonymous := follow(t, collect(t, dial(t, p.addr()), prefix, nil), prefix)
	noErr(t, second(plain.AuthEnable(ctx)))
	root := dialAs(t, endpoint, "root", "r")
	reader := dialAs(t, p.addr(), "reader", "p")
	allowed := follow(t, collect(t, reader, prefix, nil), prefix)
	w = &writer{t, collect(t, root, prefix, nil)}
	w.put("b", 5, 1)
	allowed.caughtUp(t, root)
	for range 2 {
		time.Sleep(1100 * time.Millisecond) // the server's own clock: the token has expired
		p.cut()
		w.put("c", 5, int(time.Now().UnixNano()))
		allowed.caughtUp(t, root)
	}
	rig.Met(t, time.Minute, "nobody says 401", func() bool {
		return slices.ContainsFunc(anonymous.errors(), apierrors.IsUnauthorized)
	})

	stranger := collect(t, dialAs(t, endpoint, "stranger", "p"), prefix, nil)
	calls := map[string]error{
		"list": second(stranger.List(ctx, metav1.ListOptions{}, func(*thing, error) error { return nil })),
		"watch": stranger.Watch(ctx, metav1.ListOptions{ResourceVersion: "5"},
			func(lw.WatchEvent[*thing]) error { return nil }),
		"write": second(stranger.Create(ctx, newThing("ns", "x", 1))),
		"get":   second(stranger.Get(ctx, lw.Key{Namespace: "ns", Name: "a0"})),
	}
	for what, err := range calls {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s without the role: %v, want Forbidden", what, err)
		}
	}

	noErr(t, second(root.AuthDisable(ctx)))
	(&writer{t, things}).put("d", 5, 1)
	for _, f := range []*follower{anonymous, allowed} {
		f.caughtUp(t, plain)
	}
}

// TestStream403: the answer to the watch itself, not to the read before it, is a 403.
func TestStream403(t *testing.T) {
	plain, prefix, things := begin(t)
	ctx := within(t, time.Minute)
	(&writer{t, things}).put("a", 1, 1)
	addUser(ctx, t, plain, "root", "r")
	noErr(t, second(plain.RoleAdd(ctx, "one")))
	addUser(ctx, t, plain, "one", "p")
	// One key may be read, which is the one of which the witness is; the prefix may not.
	noErr(t, second(plain.RoleGrantPermission(ctx, "one", prefix+"ns/a0", "", clientv3.PermissionType(clientv3.PermRead))))
	things = collect(t, dialAs(t, plain.Endpoints()[0], "one", "p"), prefix, nil)
	version := listVersion(t, things)
	noErr(t, second(plain.AuthEnable(ctx)))
	err := things.Watch(ctx, metav1.ListOptions{ResourceVersion: version},
		func(lw.WatchEvent[*thing]) error { return nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("the watch: %v, want Forbidden", err)
	}
}

// TestNoSpace: a full disk is a 507 for writes, and does not concern who follows.
func TestNoSpace(t *testing.T) {
	client, prefix, things := begin(t, func(cfg *embed.Config) { cfg.QuotaBackendBytes = 4 << 20 })
	f := follow(t, things, prefix)
	var err error
	for i := range 100 {
		obj := newThing("ns", "a", i)
		obj.Text = string(make([]byte, 200_000))
		if _, err = things.Update(within(t, time.Minute), obj); apierrors.IsNotFound(err) {
			_, err = things.Create(within(t, time.Minute), obj)
		}
		if err != nil {
			break
		}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusInsufficientStorage {
		t.Fatalf("a full disk: %v, want 507", err)
	}
	f.caughtUp(t, client)
	// A deletion is still possible, and followed.
	if _, err := things.Delete(within(t, time.Minute), lw.Key{Namespace: "ns", Name: "a"}, ""); err != nil {
		t.Logf("a deletion: %v", err)
	}
	f.caughtUp(t, client)
	if s := f.Status(); s.Failed > 0 {
		t.Errorf("%d requests of the informer have failed: %v", s.Failed, f.errors())
	}
}
