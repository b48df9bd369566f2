package access

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/builtin"
	"github.com/go-lw/lw/lwtest"
)

// reviews returns the Resources that are questions about users.
func (a *Access) reviews() []lwtest.Resource {
	const access, users = authorizationv1.GroupName, authenticationv1.GroupName
	all := []lwtest.Resource{
		{Group: access, Plural: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview", Type: &authorizationv1.SelfSubjectAccessReview{}},
		{Group: access, Plural: "subjectaccessreviews", Kind: "SubjectAccessReview", Type: &authorizationv1.SubjectAccessReview{}},
		{Group: access, Plural: "localsubjectaccessreviews", Kind: "LocalSubjectAccessReview", Type: &authorizationv1.LocalSubjectAccessReview{}},
		{Group: access, Plural: "selfsubjectrulesreviews", Kind: "SelfSubjectRulesReview", Type: &authorizationv1.SelfSubjectRulesReview{}},
		{Group: users, Plural: "tokenreviews", Kind: "TokenReview", Type: &authenticationv1.TokenReview{}},
		{Group: users, Plural: "selfsubjectreviews", Kind: "SelfSubjectReview", Type: &authenticationv1.SelfSubjectReview{}},
	}
	for i := range all {
		all[i].Version, all[i].Review, all[i].Cluster = "v1", true, all[i].Plural != "localsubjectaccessreviews"
		all[i].Default = func(ctx context.Context, w lwtest.Admission) error { return a.answer(ctx, w.Object) }
	}
	return all
}

// answer fills in the status of a review.
func (a *Access) answer(ctx context.Context, o runtime.Object) (err error) {
	switch o := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		if err := checkAsked(o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes).ToAggregate(); err != nil {
			return err
		}
		o.Status = a.asked(ctx, builtin.Asker(lwtest.UserOf(ctx)), o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		if err := checkSpec(&o.Spec).ToAggregate(); err != nil {
			return err
		}
		o.Status = a.asked(ctx, subject(&o.Spec), o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		if err := checkLocal(o).ToAggregate(); err != nil {
			return err
		}
		o.Status = a.asked(ctx, subject(&o.Spec), o.Spec.ResourceAttributes, nil)
	case *authorizationv1.SelfSubjectRulesReview:
		if o.Spec.Namespace == "" {
			return apierrors.NewBadRequest("no namespace on request")
		}
		o.Status = a.rulesOf(ctx, builtin.Asker(lwtest.UserOf(ctx)), o.Spec.Namespace)
	case *authenticationv1.TokenReview:
		if o.Spec.Token == "" {
			return apierrors.NewBadRequest("token is required for TokenReview in authentication")
		}
		o.Status = a.whose(ctx, &o.Spec)
	case *authenticationv1.SelfSubjectReview:
		o.Status.UserInfo = userInfoOf(builtin.Asker(lwtest.UserOf(ctx)))
	}
	return nil
}

// asked answers whether somebody may do something.
func (a *Access) asked(ctx context.Context, who user.Info, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	record := authorizer.AttributesRecord{User: who}
	if r != nil {
		record.ResourceRequest, record.Verb, record.Namespace, record.APIGroup, record.APIVersion = true, r.Verb, r.Namespace, r.Group, r.Version
		record.Resource, record.Subresource, record.Name = r.Resource, r.Subresource, r.Name
	} else {
		record.Path, record.Verb = n.Path, n.Verb
	}
	decision, reason, err := a.authorize(ctx, record)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return status
}

func subject(s *authorizationv1.SubjectAccessReviewSpec) user.Info {
	extra := map[string][]string{}
	for key, values := range s.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: s.User, UID: s.UID, Groups: s.Groups, Extra: extra}
}

func checkAsked(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) (errs field.ErrorList) {
	switch spec := field.NewPath("spec"); {
	case r != nil && n != nil:
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), n, "cannot be specified in combination with resourceAttributes"))
	case r == nil && n == nil:
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), n, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	return errs
}

func checkSpec(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkAsked(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return errs
}

func checkLocal(o *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := checkSpec(&o.Spec)
	if r := o.Spec.ResourceAttributes; r != nil && r.Namespace != o.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if n := o.Spec.NonResourceAttributes; n != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), n, "disallowed on this kind of request"))
	}
	return errs
}

// rulesOf answers what somebody may do in a namespace.
func (a *Access) rulesOf(ctx context.Context, who user.Info, namespace string) (out authorizationv1.SubjectRulesReviewStatus) {
	resources, paths, incomplete, err := a.now().authorizer().RulesFor(ctx, who, namespace)
	out.ResourceRules, out.NonResourceRules, out.Incomplete = []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}, incomplete
	for _, r := range resources {
		out.ResourceRules = append(out.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(), ResourceNames: r.GetResourceNames(),
		})
	}
	for _, r := range paths {
		out.NonResourceRules = append(out.NonResourceRules, authorizationv1.NonResourceRule{Verbs: r.GetVerbs(), NonResourceURLs: r.GetNonResourceURLs()})
	}
	if err != nil {
		out.EvaluationError = err.Error()
	}
	return out
}

// whose answers whose token it is.
func (a *Access) whose(ctx context.Context, s *authenticationv1.TokenReviewSpec) (out authenticationv1.TokenReviewStatus) {
	audiences := authenticator.Audiences(s.Audiences)
	if len(audiences) == 0 {
		audiences = a.audiences()
	}
	response, ok, err := a.tokens.AuthenticateToken(authenticator.WithAudiences(ctx, audiences), s.Token)
	if err == nil && !ok {
		err = errors.New("invalid bearer token")
	}
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Authenticated, out.User, out.Audiences = true, userInfoOf(response.User), response.Audiences
	out.User.Groups = append(out.User.Groups[:len(out.User.Groups):len(out.User.Groups)], user.AllAuthenticated)
	return out
}

func userInfoOf(u user.Info) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[key] = values
	}
	return out
}
