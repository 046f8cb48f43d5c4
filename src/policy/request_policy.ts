/**
 * L7 authorization: may this source send this request? The decisions of the RBAC rules that Consul gives
 * Envoy (`consul` reference 4.3): the first intention that covers the source decides, by the first of its
 * permissions that covers the request; if none does the default decides, not the next intention.
 *
 * @module
 */

import {
  covers,
  type Intention,
  type IntentionPolicy,
  mayAllow,
  type Source,
} from "./intention.ts";
import {
  type CompiledPermission,
  compilePermission,
  type JudgedRequest,
  needsRegexes,
} from "./permission.ts";
import { hasToken, needText, type TokenNeed, type VerifiedClaims } from "./token_need.ts";

/** The outcome for one request, made beforehand: a decision allocates nothing. */
export interface RequestVerdict {
  readonly kind: "allow" | "deny";
  /** For the log: `default/web => default/db (precedence 9, permission 2: deny GET /admin*)`. */
  readonly rule: string;
  /** Number of the permission that decided, from 1; 0: none did. */
  readonly permission: number;
  /** Denied only because a demand cannot be checked: a JWT, an invalid regex. */
  readonly isUnjudged: boolean;
  /** Denied because no token of these came with the request; absent: for another reason. */
  readonly lacks?: readonly TokenNeed[];
}

/** The decisions for one source, valid while the policy and the source's credentials stay the same. */
export interface SourceJudge {
  /**
   * The outcome for every request of this source; `per_request`: it depends on the request. Consul denies
   * requests, not connections, of a source that speaks HTTP: this is for displays and counters of
   * connections.
   */
  readonly kind: "allow" | "deny" | "per_request";
  /** The intention that decides, or the default. */
  readonly rule: string;
  /**
   * Called for each request, also on a connection that was admitted. `request` is in the form that is
   * forwarded: its path is normalised, and it has the fields that the proxy adds. `claims`: those of its
   * tokens; absent: none.
   */
  decide(request: JudgedRequest, claims?: VerifiedClaims): RequestVerdict;
  /** For people: the permissions that {@link decide} evaluates, in its order, the one that decides last. */
  tried(request: JudgedRequest, claims?: VerifiedClaims): readonly TriedPermission[];
}

export interface TriedPermission {
  readonly permission: number;
  /** `deny GET /admin*`. */
  readonly text: string;
  /** The first condition that does not hold: `method GET`; `null`: all hold. */
  readonly unmet: string | null;
  /** The decision, if it decides; `null`: the next one is evaluated. */
  readonly decides: "allow" | "deny" | null;
}

/** Made once per version of a policy; see {@link compilePolicy}. */
export interface RequestPolicy {
  /** Call this once per connection, and again when policy or credentials change. */
  forSource(source: Source): SourceJudge;
}

/** Whether `prepareRegexes()` must have been awaited in this thread before {@link compilePolicy}. */
export function policyNeedsRegexes({ intentions }: IntentionPolicy): boolean {
  return intentions.some(({ permissions }) => permissions && needsRegexes(permissions));
}

/** For a listener that speaks HTTP; all others use `authorize`. Throws only if regexes were not prepared. */
export function compilePolicy({ intentions, defaultAction }: IntentionPolicy): RequestPolicy {
  const rules = intentions.map((intention) => ({
    intention,
    judge: judgeOf(intention, defaultAction),
  }));
  const otherwise = always(defaultAction, `default ${defaultAction}`);
  return {
    forSource(source) {
      const found = rules.find(({ intention }) => covers(intention, source));
      if (!found) return otherwise;
      const { intention, judge } = found;
      if (judge.kind === "deny" || mayAllow(intention, source)) return judge;
      return always("deny", `${intention.rule}: it is not exactly this source`);
    },
  };
}

function judgeOf(intention: Intention, defaultAction: "allow" | "deny"): SourceJudge {
  const judge = judgeWithoutTokens(intention, defaultAction);
  const { tokens, rule } = intention;
  if (!tokens || judge.kind === "deny") return judge;
  const lacking = { ...verdictOf("deny", `${rule}: without ${needText(tokens)}`), lacks: tokens };
  return {
    kind: "per_request",
    rule,
    decide: (request, claims) => hasToken(tokens, claims) ? judge.decide(request, claims) : lacking,
    tried: (request, claims) => hasToken(tokens, claims) ? judge.tried(request, claims) : [],
  };
}

function judgeWithoutTokens(intention: Intention, defaultAction: "allow" | "deny"): SourceJudge {
  const { action, permissions = [], refused, rule } = intention;
  if (action === "deny") return always("deny", rule);
  if (refused !== undefined) return always("deny", `${rule}: denies, since ${refused}`, true);
  if (action === "allow") return always("allow", rule);
  // An intention without action and permissions allows nothing.
  if (permissions.length === 0) return always("deny", rule);
  return byPermissions(rule, permissions.map(compilePermission), defaultAction);
}

function byPermissions(
  rule: string,
  permissions: readonly CompiledPermission[],
  defaultAction: "allow" | "deny",
): SourceJudge {
  const named = (what: string) => rule.replace(/permissions\)$/, () => `${what})`);
  const tried = permissions.map(({ action, covers, text, isUnjudged, tokens }, index) => {
    const permission = index + 1;
    const rule = `permission ${permission}: ${text}`;
    const verdict: RequestVerdict = { kind: action, rule: named(rule), permission, isUnjudged };
    const lacking: RequestVerdict | undefined = tokens && {
      kind: "deny",
      rule: named(`${rule}; without ${needText(tokens)}`),
      permission,
      isUnjudged,
      lacks: tokens,
    };
    return { covers, verdict, tokens, lacking };
  });
  const otherwise: RequestVerdict = {
    kind: defaultAction,
    rule: named(`no permission: default ${defaultAction}`),
    permission: 0,
    isUnjudged: false,
  };
  return {
    kind: "per_request",
    rule,
    decide(request, claims) {
      for (const { covers, verdict, tokens, lacking } of tried) {
        if (!covers(request)) continue;
        // As in Envoy, the first permission that covers the request decides. Without the token that it
        // needs, the request is denied, even if a later permission would allow it.
        return lacking && !hasToken(tokens, claims) ? lacking : verdict;
      }
      return otherwise;
    },
    tried(request, claims) {
      const until = tried.findIndex(({ covers }) => covers(request));
      const looked = until < 0 ? permissions : permissions.slice(0, until + 1);
      return looked.map(({ action, text, unmet, tokens }, index) => {
        const permission = index + 1;
        if (index !== until) {
          return { permission, text, unmet: unmet(request) ?? "", decides: null };
        }
        if (hasToken(tokens, claims)) return { permission, text, unmet: null, decides: action };
        return { permission, text, unmet: needText(tokens ?? []), decides: "deny" };
      });
    },
  };
}

function always(kind: "allow" | "deny", rule: string, isUnjudged = false): SourceJudge {
  const verdict = verdictOf(kind, rule, isUnjudged);
  return { kind, rule, decide: () => verdict, tried: () => [] };
}

function verdictOf(kind: "allow" | "deny", rule: string, isUnjudged = false): RequestVerdict {
  return { kind, rule, permission: 0, isUnjudged };
}
