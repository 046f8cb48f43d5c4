/** Consul's ACL rule language, the part that policies for proxies use. @module */

import { HttpRefusal } from "../../../../src/dev/refusal.ts";

export interface Rule {
  /** `service`, `node`, `agent`, `operator`, `mesh`, ... */
  readonly resource: string;
  readonly prefix: boolean;
  readonly segment: string;
  readonly policy: "read" | "write" | "deny";
  /** `intentions = "..."` of a service rule; `""`: not given. */
  readonly intentions: "" | "read" | "write" | "deny";
}

const RULE = new RegExp(
  String.raw`\s*(?:` +
    String.raw`(\w+)\s+"([^"]*)"\s*\{\s*policy\s*=\s*"(read|write|deny)"\s*` +
    String.raw`(?:intentions\s*=\s*"(read|write|deny)"\s*)?\}` +
    String.raw`|(\w+)\s*=\s*"(read|write|deny)")\s*`,
  "y",
);

/** Rules of a policy text. Throws a 400 {@link HttpRefusal} where the text is not understood. */
export function parseRules(text: string): readonly Rule[] {
  const rules: Rule[] = [];
  const source = text.trim();
  let at = 0;
  while (at < source.length) {
    RULE.lastIndex = at;
    const found = RULE.exec(source);
    if (!found) {
      throw new HttpRefusal(400, `Failed to parse ACL rules at: ${source.slice(at, at + 40)}`);
    }
    at = RULE.lastIndex;
    const name = found[1] ?? found[5] ?? "";
    const plain = found[5] !== undefined;
    rules.push({
      resource: name.replace(/_prefix$/, ""),
      prefix: plain || name.endsWith("_prefix"),
      segment: found[2] ?? "",
      policy: (found[3] ?? found[6]) as Rule["policy"],
      intentions: (found[4] ?? "") as Rule["intentions"],
    });
  }
  return rules;
}
