package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
)

// TestIdle: an etcd in which nothing at all is written answers on a watch that begins where it is.
// For twice as long as Progress a silent one would be waited for.
func TestIdle(t *testing.T) {
	things := collect(t, dial(t, startServer(t).endpoint), newPrefix(), &etcd.Options[*thing]{Progress: 3 * time.Second})
	seconds := int64(7)
	err := things.Watch(within(t, time.Minute), metav1.ListOptions{ResourceVersion: listVersion(t, things), TimeoutSeconds: &seconds}, func(lw.WatchEvent[*thing]) error { return nil })
	if err != nil {
		t.Errorf("an idle watch: %v", err)
	}
}
