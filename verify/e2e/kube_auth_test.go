package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/e2e/internal/servers"
)

// as returns the wires with a token in place of the admin's.
func as(token string, over []wire) []wire {
	var all []wire
	for _, w := range over {
		w.token = token
		all = append(all, w)
	}
	return all
}

const rbac = "/apis/rbac.authorization.k8s.io/v1/"

// allow lets the user list and watch ConfigMaps of the namespace, until revoke is called.
func allow(t testing.TB, r *servers.Reader, namespace string) (revoke func()) {
	t.Helper()
	if _, err := r.Get(within(t, patience), rbac+"clusterroles/reader"); isNotFound(err) {
		write(t, r, http.MethodPost, rbac+"clusterroles",
			object{"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
				"metadata": object{"name": "reader"},
				"rules": []object{{"apiGroups": []string{""}, "resources": []string{"configmaps"},
					"verbs": []string{"list", "watch"}}}})
	}
	path := rbac + "namespaces/" + namespace + "/rolebindings"
	write(t, r, http.MethodPost, path, object{"kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
		"metadata": object{"name": "reader", "namespace": namespace},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
		"subjects": []object{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": servers.User}}})
	return func() { remove(t, r, path+"/reader") }
}

// TestPermission starts informers that may not read, lets them, forbids it again and allows it
// again.
func TestPermission(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "permission"
		s := sharedServer(t, kind)
		r, user := reader(t, s, ""), reader(t, s, servers.UserToken)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		allowed := func(want bool) {
			t.Helper()
			rig.Until(t, patience, func() string {
				if _, err := user.Get(within(t, patience), path); (err == nil) != want || err != nil && !hasCode(err, 403) {
					return fmt.Sprint("a plain list by the user: ", err)
				}
				return ""
			})
		}
		allowed(false)
		// An open watch outlives the permission, so let it end soon.
		all := startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}},
			as(servers.UserToken, faultWires)...)
		for _, f := range all {
			f.told("403", apierrors.IsForbidden)
			f.unsynced(apierrors.IsForbidden)
		}
		revoke := allow(t, r, namespace)
		allowed(true)
		inStep(t, r, all...)
		revoke()
		allowed(false)
		for _, f := range all {
			rig.Until(t, patience, func() string {
				if st := f.Status(); !st.Synced || st.Failures == 0 || !apierrors.IsForbidden(st.Err) {
					return fmt.Sprintf("%s: status without the permission: %+v", f.name(), st)
				}
				return ""
			})
			if f.Store().Len() != 1 {
				t.Errorf("%s: the store has lost its objects with the permission", f.name())
			}
		}
		create(t, r, path, configMap(namespace, "p", "a"))
		remove(t, r, path+"/o")
		allow(t, r, namespace)
		allowed(true)
		for _, f := range all {
			f.same(r)
			f.paced()
		}
	}, servers.Kube)
}

// TestByName has a user that may get, list and watch two ConfigMaps by their names, and nothing
// else.
func TestByName(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "by-name"
		s, r := shared(t, kind)
		path := collection("configmaps", namespace)
		for _, name := range []string{"a", "b", "c"} {
			create(t, r, path, configMap(namespace, name, "1"))
		}
		write(t, r, http.MethodPost, rbac+"namespaces/"+namespace+"/roles",
			object{"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
				"metadata": object{"name": "two"},
				"rules": []object{{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "resourceNames": []string{"a",
					"b"}, "verbs": []string{"get", "list", "watch"}}}})
		write(t, r, http.MethodPost, rbac+"namespaces/"+namespace+"/rolebindings",
			object{"kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
				"metadata": object{"name": "two"},
				"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "two"},
				"subjects": []object{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": servers.User}}})

		src, _ := configMaps(t, newClient(t, s, as(servers.UserToken, wires[:1])[0]), namespace)
		var keys lw.KeySet
		key := func(name string) lw.Key { return lw.Key{Namespace: namespace, Name: name} }
		keys.Set("test", key("a"), key("b"), key("c"))
		forbidden := make(chan error, 100)
		g := lw.NewGraph(nil)
		all := lw.NewByName(g, &keys, func(lw.Key) lw.Source[*corev1.ConfigMap] { return src },
			&lw.ByNameOptions{Options: lw.Options{OnError: func(err error) {
				select {
				case forbidden <- err:
				default:
				}
			}}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 2)
		go func() { done <- g.Run(ctx) }()
		go func() { done <- all.Run(ctx) }()
		defer func() {
			cancel()
			for range cap(done) {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}()
		shows := func(want string) {
			t.Helper()
			rig.Until(t, patience, func() string {
				var got []string
				for _, obj := range all.Store().List() {
					got = append(got, obj.Name+"="+obj.Data["value"])
				}
				slices.Sort(got)
				return cmp.Diff(want, strings.Join(got, " "))
			})
		}
		shows("a=1 b=1")
		if err := <-forbidden; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), namespace+"/c") {
			t.Errorf("the error of what may not be read: %v", err)
		}
		update(t, r, path+"/a", configMap(namespace, "a", "2"))
		update(t, r, path+"/c", configMap(namespace, "c", "2"))
		remove(t, r, path+"/b")
		shows("a=2")
		create(t, r, path, configMap(namespace, "b", "3"))
		keys.Set("test", key("b"))
		shows("b=3")
	}, servers.Kube)
}

// TestBadToken starts informers that the server does not know.
func TestBadToken(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		s := sharedServer(t, kind)
		all := startConfigMaps(t, s, "bad-token", followOptions{}, as("nonsense", faultWires)...)
		for _, f := range all {
			f.told("401", apierrors.IsUnauthorized)
			f.unsynced(apierrors.IsUnauthorized)
			f.paced()
		}
	}, servers.Kube)
}

// TestPriorityAndFairness gives the user's lists and watches no place at all in the server: each is
// answered with 429.
func TestPriorityAndFairness(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace, flow = "fairness", "/apis/flowcontrol.apiserver.k8s.io/v1/"
		s := sharedServer(t, kind)
		r, user := reader(t, s, ""), reader(t, s, servers.UserToken)
		path := collection("configmaps", namespace)
		create(t, r, path, configMap(namespace, "o", "a"))
		allow(t, r, namespace)
		following := startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}},
			as(servers.UserToken, faultWires)...)
		for _, f := range following {
			f.synced()
		}
		write(t, r, http.MethodPost, flow+"prioritylevelconfigurations", object{
			"kind": "PriorityLevelConfiguration", "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
			"metadata": object{"name": "jail"},
			"spec": object{"type": "Limited", "limited": object{"nominalConcurrencyShares": 0, "lendablePercent": 0,
				"borrowingLimitPercent": 0, "limitResponse": object{"type": "Reject"}}}})
		write(t, r, http.MethodPost, flow+"flowschemas", object{
			"kind": "FlowSchema", "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": object{"name": "jail"},
			"spec": object{"priorityLevelConfiguration": object{"name": "jail"}, "matchingPrecedence": 100,
				"rules": []object{{
					"subjects": []object{{"kind": "User", "user": object{"name": servers.User}}},
					"resourceRules": []object{{"verbs": []string{"list", "watch"}, "apiGroups": []string{""},
						"resources": []string{"configmaps"}, "namespaces": []string{namespace}}}}}}})
		release := func() {
			remove(t, r, flow+"flowschemas/jail")
			remove(t, r, flow+"prioritylevelconfigurations/jail")
		}
		// A level without a seat runs one request all the same: keep that place taken.
		stop := occupy(t, s, servers.UserToken, path, 2)
		rig.Until(t, patience, func() string {
			if _, err := user.Get(within(t, patience), path); !hasCode(err, 429) {
				return fmt.Sprint("a plain list by the user: ", err)
			}
			return ""
		})
		starting := startConfigMaps(t, s, namespace, followOptions{Options: lw.Options{WatchTimeout: time.Second}},
			as(servers.UserToken, faultWires)...)
		var all []*follower[*corev1.ConfigMap]
		all = append(append(all, following...), starting...)
		for _, f := range all {
			f.requested(2, "answers of 429", isStatus(429))
			if !f.client.wire.clientset {
				f.told("429", apierrors.IsTooManyRequests)
			}
		}
		stop()
		release()
		create(t, r, path, configMap(namespace, "p", "a"))
		for _, f := range all {
			f.synced()
			f.same(r)
			f.paced()
		}
	}, servers.Kube)
}
