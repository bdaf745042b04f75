// The tool of the agents here, which always says the same.
'use strict';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };
const says = 'It is sunny.';
module.exports = { schema, says };
