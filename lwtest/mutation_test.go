package lwtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

func TestMutationDiff(t *testing.T) {
	var found []error
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}})
		inf := lw.NewInformer(m, &lw.Options{DetectMutation: true, OnError: func(err error) { found = append(found, err) }})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- inf.Run(ctx) }()
		synctest.Wait()
		obj, _ := inf.Store().Get(lw.Key{Name: "a"})
		obj.Labels["app"] = "changed"
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		obj.Labels["app"] = "changed again" // what was found is not what becomes of the object
	})
	if len(found) != 1 {
		t.Fatalf("found %v, want one", found)
	}
	diff := lwtest.MutationDiff(found[0])
	for _, want := range []string{`"web"`, `"changed"`} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff lacks %s:\n%s", want, diff)
		}
	}
	if diff := lwtest.MutationDiff(errors.New("another error")); diff != "" {
		t.Errorf("diff of another error: %s", diff)
	}
}
