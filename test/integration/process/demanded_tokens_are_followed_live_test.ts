import { DevMesh } from "../../kit/dev_mesh.ts";
import { demandedTokens } from "../../stories/demanded_tokens.ts";

demandedTokens(DevMesh);
