/** Schema issues in our words. A given text is never shown: it may be a misplaced key. @module */

/** The members of Valibot's issues that are used here. */
export interface SchemaIssue {
  readonly kind: string;
  readonly type: string;
  readonly message: string;
  readonly expected?: string | null;
  readonly input: unknown;
  readonly requirement?: unknown;
}

/** The library's message for a schema without its own. */
const LIBRARY = /^Invalid [a-z0-9 ]+: (?:Expected .* but r|R)eceived /s;

const KINDS: Readonly<Record<string, string>> = {
  Array: "a list",
  Object: "an object",
  string: "a text",
  number: "a number",
  boolean: "true or false",
  null: "null",
  undefined: "left out",
};

/** Expectations for which a given text adds nothing: it is only another text. */
const CHOICES = new Set(["picklist", "literal", "union", "variant"]);

export function issueWords(issue: SchemaIssue): string {
  const { message, kind, type, input } = issue;
  const wanted = LIBRARY.test(message) ? wantedBy(issue) : message;
  // A transformation's message may be about a part of its input.
  if (!wanted.startsWith("must be ") || input === undefined || kind === "transformation") {
    return wanted;
  }
  // A number may stem from a duration: it is shown only where a number is expected.
  const tells = kind === "schema"
    ? typeof input !== "string" || !CHOICES.has(type)
    : typeof input !== "string" && (typeof input !== "number" || wanted.includes("number"));
  return tells && !wanted.includes(": ") ? `${wanted}, not ${thereIs(input)}` : wanted;
}

function wantedBy({ type, expected, input, requirement }: SchemaIssue): string {
  if (input === undefined) return "is missing";
  switch (type) {
    case "integer":
    case "safe_integer":
      return "must be a whole number";
    case "finite":
      return "must be a finite number";
    case "min_value":
      return `must be a number, at least ${requirement}`;
    case "max_value":
      return `must be a number, at most ${requirement}`;
    case "non_empty":
      return "must not be empty";
    case "min_length":
      return `is shorter than ${requirement}`;
    case "max_length":
      return `is longer than ${requirement}`;
    case "strict_object":
      if (expected === "never") return "is not known here";
  }
  const choices = (expected ?? "").replace(/^\((.*)\)$/s, "$1").split(" | ").map((choice) =>
    choice.startsWith('"') ? choice : KINDS[choice]
  );
  const known = choices.every((choice) => choice !== undefined);
  return known ? `must be ${choices.join(" or ")}` : "is of another form than it must be";
}

function thereIs(input: unknown): string {
  if (input === null || typeof input === "number" || typeof input === "boolean") return `${input}`;
  if (Array.isArray(input)) return "a list";
  return typeof input === "string" ? "a text" : "an object";
}
