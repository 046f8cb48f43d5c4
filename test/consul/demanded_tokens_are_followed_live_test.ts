import { CONSUL } from "../kit/mesh/consul.ts";
import { demandedTokens } from "../stories/demanded_tokens.ts";

demandedTokens(CONSUL);
