// Package delegate lets an API server decide who may read from a [serve.Handler] of a program.
package delegate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"github.com/go-lw/lw/serve"
)

// Options configure [Authorizer]. The zero value means the defaults.
type Options struct {
	// Audiences are those that a token must be for. Default: those of the API server.
	Audiences []string
	// Remember is how long an answer counts, so a right that was taken away may last so long.
	// Default: 10 s.
	Remember time.Duration
	// Timeout is how long a review may take. Default: 10 s.
	Timeout time.Duration
}

// Authorizer returns a serve.Options.Authorize that asks an API server, as kube-apiserver's own
// extension servers do: a TokenReview says who the bearer of the request's token is, and a
// SubjectAccessReview whether he may do there what he wants to do here. So who may read pods from
// the API server may read them from a relay, and nobody else. The program needs the role
// system:auth-delegator.
//
// A request without a token is that of system:anonymous. If the API server does not answer, the
// request is refused with 503. Requests that ask the same share a review.
//
// Client certificates and headers of a proxy are not looked at, and a request that impersonates
// somebody is refused: with the program's credentials it could be more than was asked about. The
// selectors of a request are part of the question, so who may list the pods of one node may do that
// here. The function may be called by any goroutine, and blocks during a review.
func Authorizer(client kubernetes.Interface, opts *Options) func(*http.Request, serve.Attributes) error {
	if client == nil {
		panic("lw/clientgo/delegate: Authorizer: nil client")
	}
	d := &delegate{client: client, known: cache.NewLRUExpireCache(maxKnown)}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Remember <= 0 {
		d.opts.Remember = 10 * time.Second
	}
	if d.opts.Timeout <= 0 {
		d.opts.Timeout = 10 * time.Second
	}
	return d.authorize
}

// maxKnown is how many answers are kept.
const maxKnown = 8192

type delegate struct {
	client kubernetes.Interface
	opts   Options
	known  *cache.LRUExpireCache // answers by their questions
	asking singleflight.Group
}

var anonymous = authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}

func (d *delegate) authorize(r *http.Request, a serve.Attributes) error {
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New("impersonation is not supported"))
		}
	}
	user := &anonymous
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		var err error
		if user, err = d.userOf(r.Context(), strings.TrimSpace(token)); err != nil {
			return err
		}
	}
	spec := reviewOf(user, a)
	reason, err := d.allowed(r.Context(), spec)
	if err != nil || reason == nil {
		return err
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name,
		fmt.Errorf("user %q may not %s it%s", user.Username, a.Verb, *reason))
}

// userOf returns whose token it is.
func (d *delegate) userOf(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	answer, err := d.ask(ctx, fmt.Sprintf("token %x", sha256.Sum256([]byte(token))), func(ctx context.Context) (any, error) {
		review, err := d.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: d.opts.Audiences},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		s := &review.Status
		if !s.Authenticated || len(d.opts.Audiences) > 0 && !slices.ContainsFunc(s.Audiences, func(a string) bool { return slices.Contains(d.opts.Audiences, a) }) {
			return (*authenticationv1.UserInfo)(nil), nil
		}
		return &s.User, nil
	})
	if err != nil {
		return nil, err
	}
	user := answer.(*authenticationv1.UserInfo)
	if user == nil {
		return nil, apierrors.NewUnauthorized("the token is not valid")
	}
	return user, nil
}

// allowed returns nil if the API server allows the request, else what it says about that.
func (d *delegate) allowed(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (reason *string, err error) {
	question, err := spec.Marshal() // unlike its text, no two of them are the same
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("lw/clientgo/delegate: %w", err))
	}
	answer, err := d.ask(ctx, fmt.Sprintf("access %x", sha256.Sum256(question)), func(ctx context.Context) (any, error) {
		review, err := d.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if review.Status.Allowed && !review.Status.Denied {
			return (*string)(nil), nil
		}
		reason := ""
		if review.Status.Reason != "" {
			reason = ": " + review.Status.Reason
		}
		return &reason, nil
	})
	if err != nil {
		return nil, err
	}
	return answer.(*string), nil
}

// ask returns the answer to a question, which is asked once for all who want to know it meanwhile.
// The error is an APIStatus: the API server could not be asked.
func (d *delegate) ask(ctx context.Context, question string, review func(context.Context) (any, error)) (any, error) {
	if answer, ok := d.known.Get(question); ok {
		return answer, nil
	}
	shared := d.asking.DoChan(question, func() (any, error) {
		// Not the context of the request: others wait for the answer too.
		ctx, cancel := context.WithTimeout(context.Background(), d.opts.Timeout)
		defer cancel()
		answer, err := review(ctx)
		if err == nil {
			d.known.Add(question, answer, d.opts.Remember)
		}
		return answer, err
	})
	select {
	case result := <-shared:
		if result.Err != nil {
			return nil, apierrors.NewServiceUnavailable("the API server cannot be asked who may do this: " + result.Err.Error())
		}
		return result.Val, nil
	case <-ctx.Done():
		return nil, errors.Join(apierrors.NewServiceUnavailable("the request has ended"), context.Cause(ctx))
	}
}

// reviewOf returns the question whether a user may do what a request wants.
func reviewOf(user *authenticationv1.UserInfo, a serve.Attributes) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, UID: user.UID}
	if len(user.Extra) > 0 {
		spec.Extra = map[string]authorizationv1.ExtraValue{}
		for name, values := range user.Extra {
			spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
	}
	if a.Resource == "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Version: a.Version, Resource: a.Resource,
		Subresource: a.Subresource, Name: a.Name,
	}
	if terms := fieldTerms(a.FieldSelector); len(terms) > 0 {
		spec.ResourceAttributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: terms}
	}
	if terms := labelTerms(a.LabelSelector); len(terms) > 0 {
		spec.ResourceAttributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: terms}
	}
	return spec
}

// fieldTerms returns the requirements of a field selector as a review has them. A selector that
// cannot be parsed has none: without it the question is whether the user may do more.
func fieldTerms(selector string) (terms []metav1.FieldSelectorRequirement) {
	sel, err := fields.ParseSelector(selector)
	if err != nil {
		return nil
	}
	for _, r := range sel.Requirements() {
		op := metav1.FieldSelectorOpIn
		if r.Operator == selection.NotEquals {
			op = metav1.FieldSelectorOpNotIn
		}
		terms = append(terms, metav1.FieldSelectorRequirement{Key: r.Field, Operator: op, Values: []string{r.Value}})
	}
	return terms
}

var labelOperators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.In: metav1.LabelSelectorOpIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

// labelTerms is fieldTerms for a label selector. A review knows no comparison of numbers, so these
// are left out, which asks for more.
func labelTerms(selector string) (terms []metav1.LabelSelectorRequirement) {
	sel, err := labels.Parse(selector)
	if err != nil {
		return nil
	}
	requirements, _ := sel.Requirements()
	for _, r := range requirements {
		if op, ok := labelOperators[r.Operator()]; ok {
			terms = append(terms, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: op, Values: slices.Sorted(slices.Values(r.ValuesUnsorted()))})
		}
	}
	return terms
}
