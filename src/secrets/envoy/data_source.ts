/**
 * Envoy's `DataSource` and `WatchedDirectory`.
 *
 * @module
 */

import * as v from "valibot";
import type { DataSource, WatchedDirectory } from "../spec.ts";
import { checked, flag, type SchemaOf, text } from "../../base/schema.ts";
import { bytes, longText, message } from "./message.ts";

/** More than the largest bundle of roots in use. */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

/** `allowFiles`: false where a server says it, which has no business with our files and environment. */
export function dataSource(options: { readonly allowFiles: boolean }): SchemaOf<DataSource> {
  const fields = message({
    filename: v.exactOptional(text()),
    inlineBytes: v.exactOptional(bytes(INLINE_LIMIT_BYTES)),
    inlineString: v.exactOptional(longText(INLINE_LIMIT_BYTES)),
    environmentVariable: v.exactOptional(text()),
  }, {
    oneOf: ["filename", "inlineBytes", "inlineString", "environmentVariable"],
    refused: {
      watchedDirectory:
        "cannot be honoured here; a file's own directory is always watched, and the " +
        "secret may have a watched_directory",
    },
  });
  return checked(fields, (found, report): DataSource | undefined => {
    const { filename, inlineBytes, inlineString, environmentVariable: variable = "" } = found;
    if (inlineBytes !== undefined) return { kind: "inline", bytes: inlineBytes };
    if (inlineString !== undefined) {
      return { kind: "inline", bytes: new TextEncoder().encode(inlineString) };
    }
    if (!options.allowFiles) {
      return report([], "must be inline: a server's secret may not name files or variables here");
    }
    return filename === undefined
      ? { kind: "environment", variable }
      : { kind: "file", path: filename };
  });
}

export function watchedDirectory(
  options: { readonly allowFiles: boolean },
): SchemaOf<WatchedDirectory> {
  const fields = message({ path: text(), watchModify: v.optional(flag(), false) });
  return checked(fields, (directory, report) => {
    if (options.allowFiles) return directory;
    return report([], "cannot be honoured: a server's secret may not name directories here");
  });
}
