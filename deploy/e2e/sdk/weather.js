// The one tool that the scripts offer.
'use strict';

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };

module.exports = { schema };
