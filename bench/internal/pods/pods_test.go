package pods

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw/internal/verify/rig"
)

// The goals are stated for a pod of this size; an object of another one would move every ratio of
// the decoders.
func TestFullSize(t *testing.T) {
	for _, i := range []int{0, 17, 4711} {
		pod := Full(i)
		asJSON := rig.Must[[]byte](t)(json.Marshal(pod))
		fields := rig.Must[[]byte](t)(json.Marshal(pod.ManagedFields))
		t.Logf("pod %d: %d bytes of JSON, %d of protobuf, %d of managed fields", i, len(asJSON), pod.Size(), len(fields))
		if n := len(asJSON); n < 8200 || n > 9200 {
			t.Errorf("pod %d has %d bytes of JSON, want about 8.5 KiB", i, n)
		}
		if n := pod.Size(); n < 5000 || n > 6000 {
			t.Errorf("pod %d has %d bytes of protobuf, want about 5.4 KiB", i, n)
		}
		if n := len(fields); n < 2200 || n > 2800 {
			t.Errorf("pod %d has %d bytes of managed fields, want about 2.5 KiB", i, n)
		}
	}
}

// Pods of mixed shapes have the size of the others on average, and no two workloads have one shape.
func TestMixed(t *testing.T) {
	const n = 300
	size, message := 0, 0
	shapes := map[string]bool{}
	names := regexp.MustCompile(`:("[^"]*"|[0-9]+|true|false)`)
	for i := range n {
		pod := Mixed(i)
		asJSON := rig.Must[[]byte](t)(json.Marshal(pod))
		size, message = size+len(asJSON), message+pod.Size()
		spec := rig.Must[[]byte](t)(json.Marshal(pod.Spec))
		shapes[names.ReplaceAllString(string(spec), ":0")] = true
		if diff := cmp.Diff(Mixed(i), pod); diff != "" {
			t.Fatal("pod", i, "is drawn by chance", diff)
		}
	}
	t.Logf("%d bytes of JSON, %d of protobuf; %d shapes", size/n, message/n, len(shapes))
	if size/n < 8000 || size/n > 9200 {
		t.Errorf("pods have %d bytes of JSON, want about 8.5 KiB", size/n)
	}
	if len(shapes) != n/mixedReplicas {
		t.Errorf("%d shapes of %d workloads", len(shapes), n/mixedReplicas)
	}
}

func TestLightVersionsRise(t *testing.T) {
	list := Light(10)
	next := Next(list, 25, len(list))
	last := list[9].ResourceVersion
	for i, pod := range next {
		if pod.ResourceVersion <= last {
			t.Fatalf("version %d is %s after %s", i, pod.ResourceVersion, last)
		}
		if pod.Name != list[i%10].Name || pod == list[i%10] {
			t.Fatalf("version %d is not a copy of pod %d", i, i%10)
		}
		last = pod.ResourceVersion
	}
}
