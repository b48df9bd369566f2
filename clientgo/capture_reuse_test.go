package clientgo_test

import (
	"reflect"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/rig"
)

// What a Decoder decodes takes from the last version what did not change. It never takes anything
// from an object that client-go has decoded, which has no notes for lw.
func TestDecoderReuse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		decoder clientgo.Decoder
		list    bool // client-go decodes the lists
		want    bool
	}{
		{"captured", clientgo.Decoder{}, false, true},
		{"Whole", clientgo.Decoder{Whole: true}, false, false},
		{"lists of client-go", clientgo.Decoder{}, true, false},
	} {
		rig.Bubble(t, tt.name, func(t *testing.T) {
			s := newCaptureServer(t)
			config := &rest.Config{}
			client := s.client(t, config)
			pods := typedPods(t, config, clientgo.Capture(client), noTweak)
			if tt.list {
				plain := typedPods(t, config, client, noTweak)
				pods = &cache.ListWatch{ListWithContextFunc: plain.ListWithContextFunc, WatchFuncWithContext: pods.WatchFuncWithContext}
			}
			inf := lw.NewInformer(tt.decoder.Source(pods, &corev1.Pod{}), &lw.Options{List: lw.ListWhole, OnError: func(err error) { t.Error(err) }})
			run(t, inf)
			rig.OK(t, inf.WaitForSync(t.Context()))
			version := func(phase corev1.PodPhase) metav1.Object {
				p := pod("default", "pod-1")
				p.Labels = map[string]string{"app": "web"}
				p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image:pod-1"}}
				p.Status.Phase = phase
				if _, err := s.pods.Update(p); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				now, _ := inf.Store().Get(lw.KeyOf(metav1.Object(p)))
				if got := now.(*corev1.Pod).Status.Phase; got != phase {
					t.Fatalf("the store has phase %s, want %s", got, phase)
				}
				return now
			}
			before, after := version("Pending"), version("Running")
			same := reflect.ValueOf(before.GetLabels()).Pointer() == reflect.ValueOf(after.GetLabels()).Pointer()
			if same != tt.want {
				t.Errorf("the labels are those of the last version: %v, want %v", same, tt.want)
			}
		})
	}
}
