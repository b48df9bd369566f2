package pods

import (
	"encoding/json"
	"testing"
)

// The goals are stated for a pod of this size; an object of another one would move every ratio of
// the decoders.
func TestFullSize(t *testing.T) {
	for _, i := range []int{0, 17, 4711} {
		pod := Full(i)
		asJSON, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := json.Marshal(pod.ManagedFields)
		if err != nil {
			t.Fatal(err)
		}
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
