/**
 * What is asked of a runtime: a module, and those that it imports, as one text.
 *
 * @module
 */

/** What a module imports that is not bundled in. */
export interface OutsideImport {
  readonly name: string;
  /** Path of the module. */
  readonly by: string;
}

export interface JoinedModules {
  readonly text: string;
  /** From the text back to the sources, as `PluginCodePart.map` has it. */
  readonly map: string;
  readonly outside: readonly OutsideImport[];
}

/** A module's source, which `read` gives by its path, with what it is written in. */
export type ModuleSource = (path: string) => Promise<{
  readonly contents: string;
  readonly loader: Loader;
}>;
/**
 * Modules named in `lent` are left outside. Rejects with every fault that it finds: file, line, column, what
 * is wrong, and the line's text.
 */
export type Join = (
  entry: string,
  read: ModuleSource,
  lent: readonly string[],
) => Promise<JoinedModules>;

export type Loader = "ts" | "tsx" | "js" | "jsx" | "json";
