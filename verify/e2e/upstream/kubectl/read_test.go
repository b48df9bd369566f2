package kubectl_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

func lines(l ...string) string { return strings.Join(l, "\n") }

// What kubectl reads, of the server itself and of a relay of a relay.
func TestRead(t *testing.T) {
	for _, relays := range []int{0, 2} {
		t.Run(fmt.Sprintf("relays=%d", relays), func(t *testing.T) {
			t.Parallel()
			b := start(t, relays, widget("shop", "cart", "red", 1), widget("shop", "till", "blue", 2),
				widget("zoo", "cage", "red", 3))
			b.reads(relays == 0)
			if relays == 0 {
				b.says(lines("NAME SHORTNAMES APIVERSION NAMESPACED KIND", "counts example.io/v1 true Count",
					"widgets wi example.io/v1 true Widget"),
					"api-resources")
				b.says(lines("NAMESPACE NAME WIDGETS AGE", "shop widgets 2 <unknown>", "zoo widgets 1 <unknown>"), "get",
					"counts", "-A")
			} else {
				b.says(lines("NAME SHORTNAMES APIVERSION NAMESPACED KIND", "widgets wi example.io/v1 true Widget"), "api-resources")
			}
		})
	}
}

// The command that verify/e2e/README.md builds says its version beside that of a server.
func TestVersion(t *testing.T) {
	readme := rig.Must[[]byte](t)(os.ReadFile("../../README.md"))
	build := regexp.MustCompile(`(?m)^ +go build (-ldflags "?([^"]+)"?) -o \S+ (\S+)$`).FindSubmatch(readme)
	if build == nil {
		t.Fatal("README.md does not say how kubectl is built")
	}
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	if out, err := exec.Command("go", "-C", "../..", "build", "-ldflags", string(build[2]), "-o", kubectl,
		string(build[3])).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := start(t, 0)
	if out, err := exec.Command(kubectl, "-s", b.url, "version").CombinedOutput(); err != nil ||
		strings.Contains(string(out), "Warning") {
		t.Errorf("version: %v\n%s", err, out)
	}
}

// hasLines checks that a text has these lines, among others.
func (b *bench) hasLines(text string, lines ...string) {
	b.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text+"\n", "\n"+line+"\n") {
			b.Errorf("there is no line %s:\n%s", line, text)
		}
	}
}

func (b *bench) reads(whole bool) {
	const (
		head = "NAMESPACE NAME COLOR AGE"
		cart = "shop cart red 90m"
		till = "shop till blue 90m"
		cage = "zoo cage red 90m"
	)
	all := lines(head, cart, till, cage)
	b.says("example.io/v1", "api-versions")
	b.says(all, "get", "widgets", "-A")
	b.says(all, "get", "widgets", "-A", "--chunk-size=1")
	b.says(all, "get", "widgets", "-A", "--sort-by=.size")
	b.says(lines(head, cart, cage), "get", "widgets", "-A", "-l", "color=red")
	b.says(lines(head, till), "get", "widgets", "-A", "--field-selector", "size=2")
	b.says(lines(head+" COLOR LABELS", cart+" red color=red", cage+" red color=red"),
		"get", "widgets", "-A", "-l", "color in (red)", "-L", "color", "--show-labels")
	b.says(lines("NAME COLOR SIZE AGE", "cart red 1 90m", "till blue 2 90m"), "get", "wi", "-n", "shop", "-o", "wide")
	b.says(lines("NAME COLOR AGE", "till blue 90m"), "get", "widget", "-n", "shop", "till")
	b.says(lines("widget.example.io/cart", "widget.example.io/till", "widget.example.io/cage"), "get", "widgets", "-A",
		"-o", "name")
	b.says(lines("N S", "cart 1", "till 2", "cage 3"), "get", "widgets", "-A", "-o",
		"custom-columns=N:.metadata.name,S:.size")
	b.says("red", "get", "widgets", "-n", "shop", "cart", "-o", "jsonpath={.color}")
	b.says("widget.example.io/cart condition met", "wait", "-n", "shop", "widget/cart", "--for=jsonpath={.color}=red",
		"--timeout=60s")

	explained := []string{"GROUP: example.io", "KIND: Widget", "VERSION: v1", "", "DESCRIPTION:", "<empty>"}
	if whole { // a relay of serve.Raw knows no fields
		explained = append(explained, "FIELDS:")
		for _, field := range []string{"apiVersion <string>", "color <string>", "kind <string>", "metadata <Object>",
			"size <integer>", "status <Object>"} {
			explained = append(explained, field, "<no description>", "")
		}
		explained = explained[:len(explained)-1]
	}
	b.says(lines(explained...), "explain", "widgets")

	yaml := b.kubectl("", "get", "widgets", "-n", "shop", "cart", "-o", "yaml")
	b.hasLines(yaml, "apiVersion: example.io/v1", "kind: Widget", "name: cart", "namespace: shop",
		"resourceVersion: \"2\"", "color: red", "size: 1")
	var list struct {
		Items []struct {
			Kind, APIVersion, Color string
			Size                    int
			Metadata                struct{ Namespace, Name string }
		}
	}
	rig.OK(b, json.Unmarshal([]byte(b.kubectl("", "get", "widgets", "-A", "-o", "json")), &list))
	var got []string
	for _, w := range list.Items {
		got = append(got, fmt.Sprint(w.APIVersion, w.Kind, w.Metadata, w.Color, w.Size))
	}
	if diff := cmp.Diff([]string{
		"example.io/v1Widget{shop cart}red1", "example.io/v1Widget{shop till}blue2", "example.io/v1Widget{zoo cage}red3",
	}, got); diff != "" {
		b.Errorf("-o json (-want +got):\n%s", diff)
	}
	var one Widget
	rig.OK(b, json.Unmarshal([]byte(b.kubectl("", "get", "--raw", "/apis/example.io/v1/namespaces/zoo/widgets/cage")),
		&one))
	if one.Name != "cage" || one.Size != 3 {
		b.Errorf("--raw: %+v", one)
	}
	described := b.kubectl("", "describe", "widgets", "-n", "shop", "cart")
	b.hasLines(described, "Name: cart", "Namespace: shop", "Labels: color=red", "Color: red", "Size: 1", "Events: <none>")
	// In another namespace than default, kubectl asks for the namespace next, and says that it is not
	// there.
	for namespace, want := range map[string]string{
		"default": `Error from server (NotFound): widgets.example.io "nothing" not found`,
		"shop":    "Error from server (NotFound): the server could not find the requested resource (get namespaces shop)",
	} {
		if diff := cmp.Diff(want, b.fails("", "get", "widgets", "-n", namespace, "nothing")); diff != "" {
			b.Errorf("an object that is not there, in %s (-want +got):\n%s", namespace, diff)
		}
	}
	b.refused("weight", "", "get", "widgets", "-A", "--field-selector", "weight=2") // there is no such field
	if got := b.fails("", "get", "pods"); got != `error: the server doesn't have a resource type "pods"` {
		b.Errorf("a resource that is not there: %s", got)
	}
}
