package kubectl_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// A Gadget has all that an API type has.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              GadgetSpec   `json:"spec"`
	Status            GadgetStatus `json:"status"`
}

type GadgetSpec struct {
	Color    string `json:"color,omitempty"`
	Replicas int32  `json:"replicas,omitempty"`
	Parts    []Part `json:"parts,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

type Part struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

type GadgetStatus struct {
	Replicas   int32       `json:"replicas,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// gadgets starts a server of gadgets, with a garbage collector. Nobody may ask for OpenAPI of
// version 2, which knows no kind.
func gadgets(t *testing.T, store lw.Writable[*Gadget]) *bench {
	b := &bench{T: t, home: t.TempDir()}
	h := serve.New(&serve.Options{Logger: slog.New(slog.DiscardHandler), Authorize: func(r *http.Request,
		_ serve.Attributes) error {
		if strings.HasPrefix(r.URL.Path, "/openapi/v2") {
			t.Errorf("kubectl asks for %s", r.URL)
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		err := serve.ServeStore(ctx, h, store, serve.Resource[*Gadget]{
			Group: "example.io", Name: "gadgets", Status: true,
			Scale: &serve.Scale{Replicas: ".spec.replicas", StatusReplicas: ".status.replicas"},
		})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("ServeStore ended with %v", err)
		}
	}()
	b.url = b.listen(h, 1)
	go h.Collect(ctx)
	return b
}

const gadgetHead = "apiVersion: example.io/v1\nkind: Gadget\nmetadata: {name: a, namespace: default, labels: {app: x}}\n"

// Each command of kubectl that writes, one after the other. One that begins with ! fails.
func TestWhole(t *testing.T) {
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		whole(t, lw.NewMemory[*Gadget]())
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		gadgets := rig.Must[*etcd.Collection[*Gadget]](t)(etcd.New[*Gadget](testserver.RunEtcd(t, nil).Client,
			"/registry/gadgets/", nil))
		whole(t, gadgets)
	})
}

func whole(t *testing.T, store lw.Writable[*Gadget]) {
	b := gadgets(t, store)
	dir := t.TempDir()
	script := filepath.Join(dir, "edit.sh")
	rig.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nsed -i s/color:.*/color:\\ edited/ \"$1\"\n"), 0o755))
	b.env = []string{"KUBE_EDITOR=" + script, "KUBECTL_EXTERNAL_DIFF=diff -u"}
	const spec = "spec: {color: red, parts: [{name: p, size: 1}]}\n"
	blue := strings.Replace(gadgetHead+spec, "red", "blue", 1)
	for _, step := range []struct{ command, stdin, want string }{
		{"create -f -", gadgetHead + spec, "gadget.example.io/a created"},
		{"delete gadget a --dry-run=client", "", "deleted"},
		{"delete gadget a --dry-run=server", "", "deleted"},
		{"get gadget a -o jsonpath={.spec.color}{.metadata.generation}", "", "red1"},
		{"delete gadget a", "", "deleted"},
		// Apply.
		{"apply -f - --dry-run=server", gadgetHead + spec, "created (server dry run)"},
		{"!get gadget a", "", "NotFound"},
		{"apply -f -", gadgetHead + spec, "gadget.example.io/a created"},
		{"apply -f -", gadgetHead + spec, "gadget.example.io/a unchanged"},
		{"!diff -f -", blue, "+ color: blue"},
		{"apply -f -", blue, "gadget.example.io/a configured"},
		{"diff -f -", blue, ""},
		{"apply -f - --server-side", blue, "serverside-applied"},
		{"apply -f - --server-side --field-manager=other", strings.Replace(blue, "parts: [{name: p, size: 1}]",
			"parts: [{name: q}]", 1), "serverside-applied"},
		{"get gadget a -o jsonpath={.spec.parts[*].name}", "", "p q"},
		{"!apply -f - --server-side --field-manager=other", gadgetHead + spec, "conflict"},
		{"apply -f - --server-side --field-manager=other --force-conflicts", gadgetHead + spec, "serverside-applied"},
		{"get gadget a -o jsonpath={.spec.color}", "", "red"},
		{"apply view-last-applied gadget a", "", "color: blue"},
		// Edit, patch, label, annotate, replace, scale.
		{"edit gadget a", "", "gadget.example.io/a edited"},
		{"get gadget a -o jsonpath={.spec.color}", "", "edited"},
		{"patch gadget a --type=merge -p {\"spec\":{\"color\":\"m\"}}", "", "patched"},
		{"patch gadget a --type=json -p [{\"op\":\"test\",\"path\":\"/spec/color\",\"value\":\"m\"},{\"op\":\"replace\",\"path\":\"/spec/color\",\"value\":\"j\"}]", "", "patched"},
		{"!patch gadget a --type=json -p [{\"op\":\"test\",\"path\":\"/spec/color\",\"value\":\"m\"}]", "",
			"The request is invalid"},
		{"patch gadget a --type=strategic -p {\"spec\":{\"parts\":[{\"name\":\"q\",\"size\":5}]}}", "", "patched"},
		{"get gadget a -o jsonpath={.spec.color}{.spec.parts[*].name}", "", "jq p"},
		{"patch gadget a --subresource=status --type=merge -p {\"status\":{\"replicas\":3,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]},\"spec\":{\"color\":\"no\"}}", "", "patched"},
		{"get gadget a -o jsonpath={.spec.color}{.status.replicas}", "", "j3"},
		{"wait gadget a --for=condition=Ready --timeout=60s", "", "condition met"},
		{"wait gadget a --for=jsonpath={.status.replicas}=3 --timeout=60s", "", "condition met"},
		{"label gadget a tier=front", "", "labeled"},
		{"!label gadget a tier=back", "", "already has a value"},
		{"label gadget a tier-", "", "unlabeled"},
		{"!label gadget a tier=no/good", "", "a valid label"},
		{"annotate gadget a note=hello", "", "annotated"},
		{"replace -f -", gadgetHead + spec, "replaced"},
		{"get gadget a -o jsonpath={.spec.color}{.status.replicas}", "", "red3"},
		{"replace --force -f -", gadgetHead + spec, "replaced"},
		{"get gadget a -o jsonpath={.status.replicas}", "", ""},
		{"scale gadget a --replicas=7", "", "scaled"},
		{"!scale gadget a --replicas=7 --current-replicas=3", "", "replicas to be 3"},
		{"get gadget a -o jsonpath={.spec.replicas}{.spec.color}", "", "7red"},
		{"get gadget a --subresource=scale -o jsonpath={.kind}{.spec.replicas}", "", "Scale7"},
		// Explain.
		{"explain gadget.spec.parts", "", "size"},
		{"!explain gadget.spec.none", "", "does not exist"},
		{"!create -f -", gadgetHead + "spec: {colour: red}\n", "unknown field \"spec.colour\""},
		// Prune, and delete in all ways.
		{"apply -f - --prune -l app=x --prune-allowlist=example.io/v1/Gadget", strings.Replace(gadgetHead, "name: a",
			"name: b", 1) + spec, "gadget.example.io/b created"},
		{"delete gadget a --ignore-not-found --wait", "", "deleted"},
		{"patch gadget b --type=merge -p {\"metadata\":{\"finalizers\":[\"example.io/x\"]}}", "", "patched"},
		{"delete gadget b --wait=false", "", "deleted"},
		{"get gadget b -o jsonpath={.metadata.finalizers}", "", "example.io/x"},
		{"!patch gadget b --type=merge -p {\"metadata\":{\"finalizers\":[\"example.io/x\",\"example.io/y\"]}}", "",
			"no new finalizers"},
		{"patch gadget b --type=merge -p {\"metadata\":{\"finalizers\":null}}", "", "patched"},
		{"wait gadget b --for=delete --timeout=60s", "", ""},
		{"create -f -", gadgetHead, "created"},
		{"delete gadget a --cascade=orphan", "", "deleted"},
		{"create -f -", gadgetHead, "created"},
		{"delete gadget a --cascade=foreground", "", "deleted"},
		{"create -f -", gadgetHead, "created"},
		{"delete gadgets --all --now", "", "deleted"},
		{"!get gadget a", "", "NotFound"},
	} {
		command, fails := strings.CutPrefix(step.command, "!")
		cmd, out, errs := b.command(step.stdin, strings.Fields(command)...)
		err := cmd.Run()
		said := words(out.String() + errs.String())
		if (err != nil) != fails || !strings.Contains(said, step.want) || step.want == "" && said != "" &&
			!strings.HasPrefix(command, "wait") {
			t.Errorf("kubectl %s: %v\n%s\nwant %q", step.command, err, said, step.want)
		}
	}
}
