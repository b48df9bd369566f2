package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/go-lw/lw/bench/internal/pods"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/verify/rig"
)

// Pods that have much in common, and differ in every way, are what apimachinery decodes, although
// most of them are decoded by templates of others. None is changed by those that come later.
func TestMutatedPods(t *testing.T) {
	const n = 1500
	rng := rand.New(rand.NewPCG(7, 1))
	for _, enc := range []decode.Encoding{decode.JSON, decode.Protobuf} {
		d := rig.Must[*decode.Decoder](t)(decode.New(reflect.TypeFor[*corev1.Pod](), decode.Options{Workers: -1}))
		d.ReuseFrom(func(string, string) any { return nil })
		type result struct {
			pod *corev1.Pod
			err error
		}
		var items [][]byte
		var want, got []result
		for i := range n {
			pod := pods.Full(i)
			if i%5 == 0 {
				pod = pods.Mixed(i)
			}
			var r result
			r.pod = &corev1.Pod{}
			var data []byte
			if enc == decode.JSON {
				data = mutatedJSON(t, rng, pod)
				r.err = utiljson.Unmarshal(data, r.pod)
			} else {
				data = mutatedProtobuf(t, rng, pod)
				r.err = r.pod.Unmarshal(data)
			}
			r.pod.TypeMeta = metav1.TypeMeta{}
			items, want = append(items, data), append(want, r)
		}
		var copies []*corev1.Pod
		if _, err := d.List(bytes.NewReader(listOf(t, enc, items)), enc, func(o decode.Object) error {
			pod, _ := o.Value.(*corev1.Pod)
			got, copies = append(got, result{pod, o.Err}), append(copies, pod.DeepCopy())
			return nil
		}); err != nil || len(got) != n {
			t.Fatalf("encoding %d: %d of %d pods, error %v", enc, len(got), n, err)
		}
		right := 0
		for i := range want {
			switch {
			case (got[i].err == nil) != (want[i].err == nil):
				t.Fatalf("encoding %d, pod %d: error %v, want %v", enc, i, got[i].err, want[i].err)
			case got[i].err != nil:
				continue
			case !reflect.DeepEqual(want[i].pod, got[i].pod):
				t.Fatalf("encoding %d, pod %d (-want +got):\n%s", enc, i, cmp.Diff(want[i].pod, got[i].pod))
			case !reflect.DeepEqual(copies[i], got[i].pod):
				t.Fatalf("encoding %d: pod %d has changed since it was decoded", enc, i)
			}
			right++
		}
		if right < n/2 {
			t.Errorf("encoding %d: only %d of %d pods are right", enc, right, n)
		}
	}
}

// listOf returns a list of pods.
func listOf(t *testing.T, enc decode.Encoding, items [][]byte) []byte {
	if enc == decode.JSON {
		return fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}`,
			bytes.Join(items, []byte(",")))
	}
	var list []byte
	for _, data := range items {
		list = append(binary.AppendUvarint(append(list, 0x12), uint64(len(data))), data...)
	}
	raw := rig.Must[[]byte](t)((&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		Raw: list}).Marshal())
	return append([]byte("k8s\x00"), raw...)
}

// mutatedJSON returns the JSON of a pod with a few changes, in the order of the type or of the
// alphabet.
func mutatedJSON(t *testing.T, rng *rand.Rand, pod *corev1.Pod) []byte {
	data := rig.Must[[]byte](t)(json.Marshal(pod))
	for range rng.IntN(4) {
		switch rng.IntN(6) {
		case 0: // values of one sort for others
			old := []string{`"True"`, `true`, `"app"`, `8080`, `"250m"`, `300`, `"ALL"`}[rng.IntN(7)]
			now := []string{`"False"`, `false`, `"\u00e9\n\""`, `"name"`, `1e3`, `null`, `""`, `-1`,
				`"` + strings.Repeat("x", 300) + `"`}[rng.IntN(9)]
			data = bytes.Replace(data, []byte(old), []byte(now), 1+rng.IntN(3))
		case 1: // a member again
			data = bytes.Replace(data, []byte(`"nodeName":`), []byte([]string{`"nodeName":"a","nodeName":`,
				`"volumes":[{"name":"v"}],"nodeName":`, `"unknown":[1,{}],"nodeName":`}[rng.IntN(3)]), 1)
		case 2: // white space
			data = bytes.Replace(data, []byte([]string{`,"`, `":`, `{"`, `}]`}[rng.IntN(4)]),
				[]byte([]string{", \"", "\" :\t", "{\n\"", "} ]"}[rng.IntN(4)]), 1)
		case 3: // an element less, or more
			data = bytes.Replace(data, []byte(`{"name":"LOG_LEVEL","value":"info"},`),
				slices.Repeat([]byte(`{"name":"A","value":"b"},`), rng.IntN(3)), 1)
		case 4: // a byte
			data = slices.Clone(data)
			data[rng.IntN(len(data))] = byte(32 + rng.IntN(95))
		case 5:
			var all map[string]any
			if json.Unmarshal(data, &all) == nil {
				data, _ = json.Marshal(all)
			}
		}
	}
	if !json.Valid(data) {
		// What is no JSON ends the list.
		data, _ = json.Marshal(pod)
	}
	return data
}

// mutatedProtobuf returns the protobuf of a pod with a few changes.
func mutatedProtobuf(t *testing.T, rng *rand.Rand, pod *corev1.Pod) []byte {
	texts := []string{"", "a", strings.Repeat("b", 127), strings.Repeat("c", 128), strings.Repeat("d", 20_000)}
	text := texts[rng.IntN(len(texts))]
	c := &pod.Spec.Containers[rng.IntN(len(pod.Spec.Containers))]
	switch rng.IntN(9) {
	case 0:
		c.Image = text
	case 1:
		pod.Spec.NodeName, pod.Status.PodIP = text, text
	case 2:
		c.Env = c.Env[:len(c.Env)/2]
	case 3:
		c.Resources.Limits = nil
	case 4:
		c.LivenessProbe = nil
	case 5:
		pod.Spec.NodeSelector = map[string]string{"a": text, "b": "c"}
	case 6:
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Name: text})
	case 7:
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1, 2, int64(rng.IntN(1000))}}
	}
	data := rig.Must[[]byte](t)(pod.Marshal())
	other := rig.Must[[]byte](t)(pods.Full(rng.IntN(100)).Marshal())
	switch rng.IntN(8) {
	case 0: // all fields again, which are merged
		data = append(data, other...)
	case 1: // an unknown field
		data = append(data, 0xfa, 0x07, 1, 'x')
	case 2:
		data = data[:rng.IntN(len(data))]
	}
	return data
}
