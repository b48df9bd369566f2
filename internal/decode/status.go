package decode

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns the error in raw, the JSON of a Status. The object of an ERROR event is one, and
// so is the body of a response that has failed.
func statusOf(raw []byte) error {
	var s metav1.Status
	if err := unmarshal(raw, &s); err != nil || s.Kind != "Status" {
		return fmt.Errorf("an ERROR event without a Status: %.200q", raw)
	}
	return StatusError(&s)
}

// StatusError returns s as an error, for a place where something else was expected. Its message is
// never empty: if the server wrote none, or calls it a success, the message says what else is in
// it. The code stays as the server wrote it, which may be 0.
func StatusError(s *metav1.Status) error {
	// The text of an API error is its message alone, so an empty one would be an error without
	// words.
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
	// An *apierrors.StatusError, so that IsResourceExpired and its like find the reason.
	return apierrors.FromObject(s)
}
