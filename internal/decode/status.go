package decode

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf is the error that the JSON of a Status holds.
func statusOf(raw []byte) error {
	var s metav1.Status
	if err := unmarshal(raw, &s); err != nil || s.Kind != "Status" {
		return fmt.Errorf("an ERROR event without a Status: %.200q", raw)
	}
	return statusError(&s)
}

// statusError is the error that s is, where something else was expected, with words in any case. Its code is what the server
// wrote into it, which may be none.
func statusError(s *metav1.Status) error {
	if s.Message == "" || s.Status == metav1.StatusSuccess {
		words := []string{"the server answered with a Status"}
		for _, w := range []struct{ what, is string }{{"status", s.Status}, {"reason", string(s.Reason)}, {"message", s.Message}} {
			if w.is != "" {
				words = append(words, fmt.Sprintf("%s %q", w.what, w.is))
			}
		}
		if s.Message == "" {
			words = append(words, "without a message")
		}
		s.Message = strings.Join(words, ", ")
	}
	return apierrors.FromObject(s)
}
