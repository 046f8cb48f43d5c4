/** The JSON Schema of the configuration file, for editors; made of the schema that reads it. @module */

import { isRecord } from "../../base/schema.ts";
import { FILE_CONFIG } from "./file_config_schema.ts";

export type JsonSchema = { readonly [key: string]: unknown };

/**
 * What it allows is a little more than what is read: checks across keys and of credentials are the
 * reader's own.
 */
export function configJsonSchema(): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Configuration of postern proxy -config",
    ...schemaOf(FILE_CONFIG),
  };
}

type Getter = (input: unknown) => unknown;

/** Reads plain members of Valibot's objects: their types do not tell one kind from another. */
function schemaOf(schema: unknown): JsonSchema {
  if (!isRecord(schema)) return {};
  if (Array.isArray(schema.pipe)) return pipeOf(schema.pipe);
  switch (schema.type) {
    case "strict_object":
      return objectOf(isRecord(schema.entries) ? schema.entries : {});
    case "optional":
      return { ...schemaOf(schema.wrapped), ...defaultOf(schema.default) };
    case "array":
      return { type: "array", items: schemaOf(schema.item) };
    case "picklist":
      return { enum: schema.options };
    case "literal":
      return { const: schema.literal };
    case "union":
    case "variant":
      return { anyOf: (schema.options as readonly unknown[]).map(schemaOf) };
    case "lazy": {
      // Chosen by whether the value is an object.
      const getter = schema.getter as Getter;
      return { anyOf: [schemaOf(getter("")), schemaOf(getter({}))] };
    }
    case "string":
    case "number":
    case "boolean":
      return { type: schema.type };
    default:
      return {};
  }
}

function objectOf(entries: Readonly<Record<string, unknown>>): JsonSchema {
  const required = Object.keys(entries).filter((key) => {
    const entry = entries[key];
    return isRecord(entry) && entry.type !== "optional";
  });
  const properties = Object.entries(entries).map(([key, entry]) => [key, schemaOf(entry)]);
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    ...required.length > 0 && { required },
    additionalProperties: false,
  };
}

/** Up to the first transformation: what follows is about another value. */
function pipeOf([first, ...actions]: readonly unknown[]): JsonSchema {
  let made = schemaOf(first);
  for (const action of actions) {
    if (!isRecord(action) || action.kind !== "validation") break;
    made = { ...made, ...ruleOf(action, made) };
  }
  return made;
}

function ruleOf({ type, requirement }: Record<string, unknown>, made: JsonSchema): JsonSchema {
  const isList = made.type === "array";
  switch (type) {
    case "integer":
      return { type: "integer" };
    case "min_value":
      return { minimum: requirement };
    case "max_value":
      return { maximum: requirement };
    case "non_empty":
      return isList ? { minItems: 1 } : { minLength: 1 };
    case "max_length":
      return isList ? { maxItems: requirement } : { maxLength: requirement };
    case "regex":
      // A schema's patterns have no flags, and one value has one pattern.
      return requirement instanceof RegExp && requirement.flags === "" && !("pattern" in made)
        ? { pattern: requirement.source }
        : {};
    default:
      return {};
  }
}

function defaultOf(value: unknown): JsonSchema {
  return value === undefined || typeof value === "function" ? {} : { default: value };
}
