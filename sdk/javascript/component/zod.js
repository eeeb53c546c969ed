// zod, as components have it: without compiling a checker for every schema, which takes longer than
// the one check that a call needs, and with its usual parts used once (see warm.js).

import * as zod from 'zod';

const { z } = zod;
z.config({ jitless: true });

const sample = z.object({
  text: z.string().min(1).max(9).describe('x'),
  list: z.array(z.string()).optional(),
  count: z.number().int().min(1).max(9).default(2),
  size: z.number().nullable().optional(),
  kind: z.enum(['a', 'b']).default('a'),
  flag: z.boolean().optional(),
  any: z.union([z.string(), z.literal(1)]).optional(),
  map: z.record(z.string(), z.unknown()).optional(),
  inner: z.strictObject({ a: z.string() }).optional(),
});
sample['~standard'].validate({ text: 'a', list: ['a'], size: 1, flag: true, any: 'a', map: { a: 1 }, inner: { a: 'a' } });
sample['~standard'].validate({ text: 1, other: 1 });
sample['~standard'].jsonSchema.input({ target: 'draft-2020-12' });

export * from 'zod';
export { default } from 'zod';
