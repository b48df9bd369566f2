package clientgo_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The error of a client's request says what was asked for, and what the server said, whether or not
// it said it in a Status, and says neither twice.
func TestFromClientSaysWhatWasRefused(t *testing.T) {
	const asked = `lw: FromClient: Pod in namespace ns, label selector "app=web", field selector "spec.nodeName=n": `
	for name, tt := range map[string]struct {
		code                int
		contentType, answer string
		want                string // of List and Watch; that of a Source has no asked
	}{
		"a Status": {403, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no pods for you","code":403}`, "no pods for you"},
		"a proxy": {429, "text/plain", "upstream\n  is full",
			`the server has received too many requests and has asked us to try again later (get pods): "upstream is full"`},
		"no text": {404, "application/octet-stream", "\x00",
			"the server could not find the requested resource (get pods)"},
		"nothing": {401, "", "", "the server has asked for the client to provide credentials (get pods)"},
		"a long page": {400, "text/html", "<html>" + strings.Repeat("x", 1000),
			`the server rejected our request for an unknown reason (get pods): "<html>` + strings.Repeat("x", 194) + `"`},
		"said once": {502, "text/plain", "bad \"gate\"\nway",
			`an error on the server ("bad \"gate\"\nway") has prevented the request from succeeding (get pods)`},
		"is the text": {403, "text/plain", "who\nare you", "who\nare you (get pods)"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: "http://h", Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: tt.code, Header: http.Header{"Content-Type": {tt.contentType}},
					Body: io.NopCloser(strings.NewReader(tt.answer)), Request: r}, nil
			})}
			pods := kubernetes.NewForConfigOrDie(config).CoreV1()
			narrow := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = "app=web", "spec.nodeName=n" }
			for asked, src := range map[string]lw.Source[*corev1.Pod]{
				asked:                   lw.FromClient(pods.Pods("ns"), narrow),
				"lw: FromClient: Pod: ": lw.FromClient(pods.Pods("")),
				"": clientgo.SourceOf[*corev1.Pod](cache.NewFilteredListWatchFromClient(pods.RESTClient(),
					"pods", "ns", narrow)),
			} {
				_, err := src.List(t.Context(), metav1.ListOptions{}, nil)
				rig.Same(t, "list", asked+tt.want, fmt.Sprint(err))
				err = src.Watch(t.Context(), metav1.ListOptions{}, nil)
				rig.Same(t, "watch", asked+tt.want, fmt.Sprint(err))
				status, ok := errors.AsType[*apierrors.StatusError](err)
				rig.Same(t, "is a status error", true, ok && int(status.ErrStatus.Code) == tt.code)
			}
		})
	}
}
