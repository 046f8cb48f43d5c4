import { CONSUL } from "../kit/consul.ts";
import { resolver } from "../stories/resolver.ts";

resolver(CONSUL);
